"""The JSON documents of a run's output beside its manifest: `run.json`, and one commit per chunk.
Pure."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal

from pydantic import Base64Bytes, Field, TypeAdapter

from inferrun.contract import dump_contract
from inferrun.manifest import (
    FILE_NAME,
    Document,
    Manifest,
    ManifestPart,
    ManifestRecords,
    ResultColumn,
    StoredFile,
)
from inferrun.plugins import (
    NO_USAGE,
    Chunk,
    ChunkCommit,
    Contract,
    Counts,
    InputPlan,
    Member,
    PlannedObject,
    ResultCounts,
    Skipped,
    TokenUsage,
)
from inferrun.runner_report import total_usage
from inferrun.text import public_url
from inferrun_runner.protocols.protocol_name import named_protocol
from inferrun_runner.stores.run_folder.spool import Draft, PartDraft


class StoredSchema(Document):
    """The columns of the results, and the same as Arrow's serialized schema."""

    columns: tuple[ResultColumn, ...]
    arrow: Base64Bytes


class RunDocument(Document):
    """What all attempts of a run must agree on."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    fingerprint: str
    total: int

    chunks: tuple[tuple[int, int, int, int], ...]
    """Unit, start, end and number of records of each chunk."""

    skipped: tuple[Skipped, ...] | None = None
    """What is not read of the input."""

    objects: tuple[tuple[str, int, str, dict[str, str | None]], ...] | None = None
    """Name, size, tag and partition of each file that is read."""

    boundaries: tuple[tuple[str, ...], ...] | None = None
    """The keys at which the chunks begin."""

    input_schema: Base64Bytes | None = None
    """The columns of the input, as Arrow's serialized schema."""

    result_schema: StoredSchema | None = None
    """The columns of the results."""

    def plan(self) -> InputPlan:
        """Return the plan."""
        chunks: list[Chunk] = []
        first = 0
        for index, (unit, start, end, records) in enumerate(self.chunks):
            chunks.append(Chunk(index, unit, start, end, first, records))
            first += records
        return InputPlan(
            fingerprint=self.fingerprint,
            chunks=tuple(chunks),
            skipped=self.skipped or (),
            objects=tuple(PlannedObject(*one) for one in self.objects or ()),
            boundaries=self.boundaries or (),
            schema=self.input_schema or b"",
            result_schema=self.result_schema.arrow if self.result_schema else b"",
        )


def document_of(plan: InputPlan, contract: Contract) -> RunDocument:
    """Return the document that stores a plan."""
    return RunDocument(
        run_id=run_id_of(contract),
        job_name=contract.job_name,
        fingerprint=plan.fingerprint,
        total=plan.total,
        chunks=tuple((chunk.unit, chunk.start, chunk.end, chunk.records) for chunk in plan.chunks),
        skipped=plan.skipped or None,
        objects=tuple((one.name, one.size, one.tag, dict(one.partition)) for one in plan.objects)
        or None,
        boundaries=plan.boundaries or None,
        input_schema=b64encode(plan.schema) or None,
        result_schema=StoredSchema(columns=columns_of(plan), arrow=b64encode(plan.result_schema))
        if plan.result_schema
        else None,
    )


def columns_of(plan: InputPlan) -> tuple[ResultColumn, ...]:
    """Return the columns of the results; empty if they have no types."""
    if not plan.result_schema:
        return ()
    from inferrun.formats.result_schema import ResultSchema, Role  # noqa: PLC0415  only runs with typed results import pyarrow

    schema = ResultSchema.deserialized(plan.result_schema)
    roles = {name: str(role) for role in Role for name in schema.names(role)}
    return tuple(
        ResultColumn(name=one.name, type=str(one.type), role=roles[one.name])
        for one in schema.arrow
    )


class ChunkDocument(Document):
    """The commit of a chunk. The first one decides which attempt's files belong to the output."""

    inferrun: Literal["v1"] = "v1"
    chunk: int
    attempt: str = Field(pattern=f"^{FILE_NAME}$")
    part: ManifestPart
    usage: TokenUsage = NO_USAGE

    def commit(self, *, won: bool) -> ChunkCommit:
        """Return what is committed."""
        return ChunkCommit(
            counts=ResultCounts(self.part.records - self.part.failed, self.part.failed),
            bytes=self.part.bytes,
            sha256=self.part.sha256,
            usage=self.usage,
            won=won,
        )


MEMBER: TypeAdapter[Member] = TypeAdapter(Member)
"""What a Pod of a run says about itself to the others."""


def run_id_of(contract: Contract) -> str:
    """Return the run's own UID; the Krateo controller's contracts have only the job's."""
    return contract.run_id or contract.job_id


def chunk_document_of(
    draft: PartDraft, *, name: str, suffix: str, attempt: str, errors_suffix: str = ""
) -> ChunkDocument:
    """Describe the files of a chunk, which have or will have the given name in their folders."""
    part = ManifestPart(
        **_stored(draft.results, f"predictions/{name}{suffix}").model_dump(),
        first=draft.chunk.first,
        records=draft.counts.total,
        failed=draft.counts.failed,
        errors=_stored(draft.errors, f"errors/{name}{errors_suffix}") if draft.errors else None,
    )
    return ChunkDocument(chunk=draft.chunk.index, attempt=attempt, part=part, usage=draft.usage)


def manifest_of(
    contract: Contract, plan: InputPlan, documents: Sequence[ChunkDocument], counts: Counts
) -> Manifest:
    """Return the manifest of a run whose chunks are committed, and whose files are in these
    documents."""
    usage = total_usage(document.usage for document in documents)
    model = contract.kserve
    revision = model.service.revision if model.service is not None else ""
    return Manifest(
        run_id=run_id_of(contract),
        job_name=contract.job_name,
        model_name=model.model_name,
        model_url=public_url(model.model_url),
        model_version=revision or None,
        protocol=named_protocol(model)[0] if named_protocol(model)[1] else None,
        contract_sha256=hashlib.sha256(dump_contract(contract).encode()).hexdigest(),
        runner_version=version("inferrun"),
        fingerprint=plan.fingerprint,
        retry_of=contract.retry_of.run_id if contract.retry_of else None,
        columns=columns_of(plan) or None,
        parts=tuple(document.part for document in documents),
        records=ManifestRecords(
            total=counts.total, completed=counts.completed, failed=counts.failed
        ),
        usage=usage if usage.total_tokens else None,
        skipped=plan.skipped or None,
    )


def _stored(draft: Draft, file: str) -> StoredFile:
    return StoredFile(file=file, bytes=draft.size, sha256=draft.sha256)

"""The JSON documents of a run's output: `run.json`, one commit per chunk, and `manifest.json`. Pure."""

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from inferrun.contract import dump_contract
from inferrun.plugins import (
    NO_USAGE,
    Chunk,
    ChunkCommit,
    CommittedRun,
    Contract,
    Counts,
    InputPlan,
    Member,
    Output,
    ResultCounts,
    Skipped,
    TokenUsage,
)
from inferrun.text import public_url
from runner.protocols.protocol_name import named_protocol
from runner.stores.run_folder.spool import Draft, PartDraft

ERRORS_SUFFIX: Final = ".jsonl"

_NAME: Final = r"[^/\x00.][^/\x00]*"
"""Whoever can write to the store may write a document: it must not name a file of another run."""

_SHOWN: Final = 1024
"""Maximum length of a location in the status."""


class Document(BaseModel):
    """JSON in Kubernetes' camel case."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    def text(self) -> bytes:
        """Return the content of the file."""
        return self.model_dump_json(by_alias=True, indent=1, exclude_none=True).encode() + b"\n"


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

    def plan(self) -> InputPlan:
        """Return the plan."""
        chunks: list[Chunk] = []
        first = 0
        for index, (unit, start, end, records) in enumerate(self.chunks):
            chunks.append(Chunk(index, unit, start, end, first, records))
            first += records
        return InputPlan(fingerprint=self.fingerprint, chunks=tuple(chunks), skipped=self.skipped or ())


def document_of(plan: InputPlan, contract: Contract) -> RunDocument:
    """Return the document that stores a plan."""
    return RunDocument(
        run_id=run_id_of(contract),
        job_name=contract.job_name,
        fingerprint=plan.fingerprint,
        total=plan.total,
        chunks=tuple((chunk.unit, chunk.start, chunk.end, chunk.records) for chunk in plan.chunks),
        skipped=plan.skipped or None,
    )


class StoredFile(Document):
    """A file of the output, relative to the run's folder."""

    file: str = Field(pattern=f"^(predictions|errors)/{_NAME}$")
    bytes: int
    sha256: str


class ManifestPart(StoredFile):
    """One committed chunk: the file of its results, and the file of its errors if there are any."""

    first: int
    records: int
    failed: int = 0
    errors: StoredFile | None = None


class ChunkDocument(Document):
    """The commit of a chunk. The first one decides which attempt's files belong to the output."""

    inferrun: Literal["v1"] = "v1"
    chunk: int
    attempt: str = Field(pattern=f"^{_NAME}$")
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


class ManifestRecords(Document):
    """The record counts; `completed + failed` equals `total`."""

    total: int
    completed: int
    failed: int


class Manifest(Document):
    """The commit of a run."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    model_name: str
    model_url: str
    model_version: str | None = None
    """With `serviceRef`, the revision of the object."""

    protocol: str | None = None
    contract_sha256: str
    """Digest of the contract of the attempt that made the commit, as it is in the run's ConfigMap."""

    runner_version: str
    fingerprint: str
    retry_of: str | None = None
    """UID of the run whose predictions this output contains, too."""

    records: ManifestRecords
    usage: TokenUsage | None = None
    skipped: tuple[Skipped, ...] | None = None
    parts: tuple[ManifestPart, ...]

    def committed_run(self, *, location: str, manifest: str, content: bytes) -> CommittedRun:
        """Return the result of the run; `manifest` is where this document is, and `content` what is stored there."""
        records = self.records
        return CommittedRun(
            total=records.total,
            completed=records.completed,
            failed=records.failed,
            output=Output(
                location=location[:_SHOWN], manifest=manifest[:_SHOWN], sha256=hashlib.sha256(content).hexdigest()
            ),
            usage=self.usage or NO_USAGE,
            skipped=self.skipped or (),
        )


class AbortedRun(Document):
    """Takes the place of the manifest of a run that failed without a commit: no attempt can commit it later."""

    inferrun: Literal["v1"] = "v1"
    run_id: str
    job_name: str
    aborted: Literal[True] = True


MEMBER: TypeAdapter[Member] = TypeAdapter(Member)
"""What a Pod of a run says about itself to the others."""

ENDED_RUN: TypeAdapter[Manifest | AbortedRun] = TypeAdapter(Manifest | AbortedRun)
"""What `manifest.json` contains."""


def run_id_of(contract: Contract) -> str:
    """Return the run's own UID; the Krateo controller's contracts have only the job's."""
    return contract.run_id or contract.job_id


def chunk_document_of(draft: PartDraft, *, name: str, suffix: str, attempt: str) -> ChunkDocument:
    """Describe the files of a chunk, which have or will have the given name in their folders. Errors are always JSON lines."""
    part = ManifestPart(
        **_stored(draft.results, f"predictions/{name}{suffix}").model_dump(),
        first=draft.chunk.first,
        records=draft.counts.total,
        failed=draft.counts.failed,
        errors=_stored(draft.errors, f"errors/{name}{ERRORS_SUFFIX}") if draft.errors else None,
    )
    return ChunkDocument(chunk=draft.chunk.index, attempt=attempt, part=part, usage=draft.usage)


def manifest_of(contract: Contract, plan: InputPlan, commits: Mapping[int, ChunkDocument], counts: Counts) -> Manifest:
    """Return the manifest of a run whose chunks are committed."""
    documents = [commits[chunk] for chunk in sorted(commits)]
    usage = sum((document.usage for document in documents), start=NO_USAGE)
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
        parts=tuple(document.part for document in documents),
        records=ManifestRecords(total=counts.total, completed=counts.completed, failed=counts.failed),
        usage=usage if usage.total_tokens else None,
        skipped=plan.skipped or None,
    )


def _stored(draft: Draft, file: str) -> StoredFile:
    return StoredFile(file=file, bytes=draft.size, sha256=draft.sha256)

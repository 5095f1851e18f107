"""The output store `delta`: parts of Parquet below the table, which one transaction of its log makes rows of the table.

Chunks are committed as those of the store that keeps the files, `file` or `s3`. Its manifest says that all parts are complete; the
run is committed when the log of the table says so, and whoever finds a manifest without that commits it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

import pyarrow

from inferrun.plugins import (
    AbortableStore,
    Checkpoint,
    Chunk,
    ChunkCommit,
    ChunkWriter,
    Claim,
    CommittedRun,
    Counts,
    Delivery,
    EarlierResults,
    InputPlan,
    Member,
    OutputError,
    OutputStore,
    PartedStore,
    ProbedStore,
    ResultOptions,
    RetriedRun,
    RetriedStore,
    SharedStore,
    StorageObject,
    StoreContext,
    Survey,
    TypedStore,
)
from inferrun.plugins.storage import MountedSecret, naming_secret_field, read_spec
from inferrun_delta.spec import DeltaSpec
from inferrun_delta.table import ABORTED, COMMITTED, RunTable, deleted


class PartStore(OutputStore, AbortableStore, PartedStore, ProbedStore, RetriedStore, SharedStore, TypedStore, Protocol):
    """What this store needs of the one that keeps its files."""


class DeltaOutput:
    """The results of one run in a table."""

    delivery: Delivery = "ExactlyOnce"
    commits_chunks = True
    stores_copied: Literal[True] = True

    def __init__(self, files: PartStore, table: RunTable) -> None:
        self._files = files
        self._table = table
        given = files.result_options
        self.result_options = ResultOptions("output.delta", given.types, given.is_flat) if given else None

    async def open(self) -> Checkpoint:
        """Read what is committed; commit the run if all of its parts are complete and an attempt died before it did."""
        if await asyncio.to_thread(self._table.outcome) == ABORTED:
            raise _aborted()
        checkpoint = await self._files.open()
        if checkpoint.committed_run is not None:
            await self._add()
        return checkpoint

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt did, and create or check the table."""
        stored = await self._files.begin(plan)
        columns = pyarrow.ipc.read_schema(pyarrow.py_buffer(stored.result_schema))
        await asyncio.to_thread(self._table.prepare, columns)
        return stored

    def writer(self, chunk: Chunk) -> ChunkWriter:
        """Return the writer of a part."""
        return self._files.writer(chunk)

    async def finish(self, counts: Counts) -> CommittedRun:
        """Complete the parts, and add them to the table. If the call is cancelled, the transaction under way decides."""
        run = await self._files.finish(counts)
        adding = asyncio.ensure_future(self._add())
        try:
            await asyncio.shield(adding)
        except asyncio.CancelledError:
            await adding
        return run

    async def find_commit(self) -> CommittedRun | None:
        """Read the log of the table."""
        outcome = await asyncio.to_thread(self._table.outcome)
        return await self._files.find_commit() if outcome == COMMITTED else None

    async def abort(self) -> CommittedRun | None:
        """Write to the log that the run is aborted, unless an attempt has committed it.

        Without a table no attempt has come far; if none has completed its parts, the manifest is taken instead.
        """
        outcome = await asyncio.to_thread(self._table.abort)
        if outcome is None and await self._files.abort() is not None:
            outcome = await asyncio.to_thread(self._table.abort)
        return await self._files.find_commit() if outcome == COMMITTED else None

    async def claim(self, claim: Claim) -> bool:
        """Record a claim."""
        return await self._files.claim(claim)

    async def report(self, member: Member) -> None:
        """Replace the Pod's sign of life."""
        await self._files.report(member)

    async def survey(self) -> Survey:
        """Return what all Pods of the run have done."""
        return await self._files.survey()

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Return all committed chunks."""
        return await self._files.read_commits()

    async def probe(self) -> str:
        """Check the place of the files, and that the log can be read."""
        await asyncio.to_thread(self._table.outcome)
        return await self._files.probe()

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Return the parts of an ended run."""
        return await self._files.earlier_results(run)

    async def _add(self) -> None:
        parts = await self._files.committed_parts()
        outcome = await asyncio.to_thread(self._table.add, parts)
        if outcome != COMMITTED:
            raise _aborted() if outcome == ABORTED else deleted()


def _aborted() -> OutputError:
    return OutputError("output.delta: the run has failed and was aborted; start a new run", is_retryable=False)


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `delta` under `output`."""
    wanted = read_spec(spec, DeltaSpec, field="output.delta")
    contract = context.contract
    if wanted.bucket:
        location, options = f"s3://{wanted.bucket}/{wanted.path}", _options(wanted, context)
    else:
        folder = context.output_dir / wanted.path
        location, options = str(folder), {}
        if not folder.resolve().is_relative_to(context.output_dir.resolve()):
            raise OutputError(f"output.delta: path {wanted.path!r} leads out of the claim", is_retryable=False)
    table = RunTable(location, options, run_id=contract.run_id or contract.job_id)
    async with context.services.output_store(wanted.label)(wanted.files, context) as files:
        yield DeltaOutput(_checked(files), table)


def _checked(files: Any) -> PartStore:  # Any: it is checked here
    assert isinstance(files, PartedStore)  # noqa: S101  the stores file and s3 are
    found: PartStore = files  # type: ignore[assignment]
    return found


def _options(wanted: DeltaSpec, context: StoreContext) -> dict[str, str]:
    """The options of the table's S3 client: credentials of the mounted Secret only, and conditional writes."""
    assert wanted.credentials_ref is not None  # noqa: S101  the model requires it
    secret = MountedSecret(context.endpoints_dir / "output", wanted.credentials_ref.name)
    with naming_secret_field("output.delta.credentialsRef", OutputError):
        keys = {
            "AWS_ACCESS_KEY_ID": secret.value("accessKeyId", "AWS_ACCESS_KEY_ID", is_ascii=True),
            "AWS_SECRET_ACCESS_KEY": secret.value("secretAccessKey", "AWS_SECRET_ACCESS_KEY", is_ascii=True),
            "AWS_SESSION_TOKEN": secret.value("sessionToken", "AWS_SESSION_TOKEN", is_ascii=True),
        }
    place = {"AWS_REGION": wanted.region or "us-east-1", "AWS_CONDITIONAL_PUT": "etag"}
    if wanted.endpoint:
        is_plain = str(wanted.endpoint.startswith("http:")).lower()
        place |= {"AWS_ENDPOINT_URL": wanted.endpoint, "AWS_ALLOW_HTTP": is_plain}
    return place | {name: value for name, value in keys.items() if value}

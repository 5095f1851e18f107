"""The results of a run as parts of Parquet below a table, which one transaction of the table makes its rows.

Chunks are committed as those of the store that keeps the files, `file` or `s3`. Its manifest says that all parts are complete; the
run is committed when the table says so, and whoever finds a manifest without that commits it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Any, Literal, Protocol, cast

import pyarrow
from pyarrow import types

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
    PipelinedStore,
    ProbedStore,
    ResultOptions,
    RetriedRun,
    RetriedStore,
    SharedStore,
    StoreContext,
    StoredPart,
    Survey,
    TypedStore,
)


class Outcome(IntEnum):
    """What a table says about a run."""

    ABORTED = 0
    COMMITTED = 1


class RunTable(Protocol):
    """The table, as one run sees it. Methods block and raise OutputError."""

    label: str
    """The field of the contract, such as `output.delta`."""

    def outcome(self) -> Outcome | None:
        """Return what the table says; None if it says nothing, or does not exist."""

    def prepare(self, columns: pyarrow.Schema) -> None:
        """Create the table with these columns, or check that it takes them."""

    def decide(self, outcome: Outcome, parts: Sequence[StoredPart] = ()) -> Outcome | None:
        """Add the parts to the table, or let no attempt add them later, unless it is decided; return what is decided then.

        None: there is no table.
        """


class PartStore(
    OutputStore,
    AbortableStore,
    PartedStore,
    PipelinedStore,
    ProbedStore,
    RetriedStore,
    SharedStore,
    TypedStore,
    Protocol,
):
    """What this store needs of the one that keeps its files."""


class TableOutput:
    """The results of one run in a table."""

    delivery: Delivery = "ExactlyOnce"
    commits_chunks = True
    stores_copied: Literal[True] = True

    def __init__(self, files: PartStore, table: RunTable) -> None:
        self._files = files
        self._table = table
        self.commits_at_a_time = files.commits_at_a_time
        given = files.result_options
        self.result_options = ResultOptions(table.label, given.types, given.is_flat) if given else None

    async def open(self) -> Checkpoint:
        """Read what is committed; commit the run if all of its parts are complete and an attempt died before it did."""
        if await asyncio.to_thread(self._table.outcome) == Outcome.ABORTED:
            raise self._aborted()
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
        """Ask the table."""
        outcome = await asyncio.to_thread(self._table.outcome)
        return await self._files.find_commit() if outcome == Outcome.COMMITTED else None

    async def abort(self) -> CommittedRun | None:
        """Let the table say that the run is aborted, unless it says that the run is committed.

        Without a table no attempt has come far; if none has completed its parts, the manifest is taken instead.
        """
        outcome = await asyncio.to_thread(self._table.decide, Outcome.ABORTED)
        run = await self._files.abort()
        if outcome is None and run is not None:
            outcome = await asyncio.to_thread(self._table.decide, Outcome.ABORTED)
        return run if outcome == Outcome.COMMITTED else None

    async def claim(self, claim: Claim) -> bool:
        """Record a claim."""
        return await self._files.claim(claim)

    async def report(self, member: Member) -> None:
        """Replace the Pod's sign of life."""
        await self._files.report(member)

    async def survey(self) -> Survey:
        """Return what all Pods of the run have done; its parts may be complete before the run is committed."""
        return await self._files.survey()

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Return all committed chunks."""
        return await self._files.read_commits()

    async def probe(self) -> str:
        """Check the place of the files, and that the table can be read."""
        await asyncio.to_thread(self._table.outcome)
        return await self._files.probe()

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Return the parts of an ended run."""
        return await self._files.earlier_results(run)

    async def _add(self) -> None:
        parts = await self._files.committed_parts()
        outcome = await asyncio.to_thread(self._table.decide, Outcome.COMMITTED, parts)
        if outcome is None:
            text = f"{self._table.label}: the table was deleted during the run; start a new run"
            raise OutputError(text, is_retryable=False)
        if outcome == Outcome.ABORTED:
            raise self._aborted()

    def _aborted(self) -> OutputError:
        text = f"{self._table.label}: the run has failed and was aborted; start a new run"
        return OutputError(text, is_retryable=False)


@asynccontextmanager
async def table_output(
    table: RunTable, label: str, files: dict[str, Any], context: StoreContext
) -> AsyncIterator[OutputStore]:  # Any: a storage object
    """Open the output whose files the label `file` or `s3` keeps."""
    async with context.services.output_store(label)(files, context) as store:
        yield TableOutput(cast("PartStore", store), table)


def run_of(context: StoreContext) -> str:
    """Return what identifies the run in a table."""
    return context.contract.run_id or context.contract.job_id


def check_storable(columns: pyarrow.Schema, label: str) -> None:
    """Raise OutputError for a column whose values in a file of Parquet are not read unchanged as those of a table."""
    for column in columns:
        if not _is_storable(column.type):
            raise OutputError(
                f"{label}: column {column.name!r} has the type {column.type}, which tables do not have; set "
                f"{label}.types.{column.name} to another one",
                is_retryable=False,
            )


def _is_storable(kind: pyarrow.DataType) -> bool:
    """Unsigned integers, half precision, and times in other units than microseconds are not."""
    if types.is_struct(kind):
        return all(_is_storable(kind.field(at).type) for at in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_storable(kind.value_type)
    if types.is_timestamp(kind):
        return bool(kind.unit == "us" and kind.tz in (None, "UTC"))
    return any(
        test(kind)
        for test in (
            types.is_boolean,
            types.is_signed_integer,
            types.is_float32,
            types.is_float64,
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
            types.is_date32,
            types.is_decimal128,
        )
    )

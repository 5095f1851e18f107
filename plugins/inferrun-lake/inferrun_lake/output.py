"""The results of a run as parts of Parquet below a table, which one transaction of the table makes
its rows.

Chunks are committed as those of the store that keeps the files, `file` or `s3`. Its manifest says
that all parts are complete; the run is committed when the table says so, and whoever finds a
manifest without that commits it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar

import pyarrow
from pyarrow import types

from inferrun.plugins import (
    Checkpoint,
    CommittedRun,
    ContractError,
    Counts,
    Delivery,
    InputPlan,
    OutputError,
    OutputStore,
    RunnerError,
    StoredPart,
)

_CONFLICTS: Final = 100
"""Commits of other writers after which an attempt gives up; each takes part of a second."""

_SHORT: Final = 5
"""Such options are no credentials, but words such as `rest` and `true`."""


class TableVerdict(IntEnum):
    """What a table says about a run."""

    ABORTED = 0
    COMMITTED = 1


T = TypeVar("T")
Fields: TypeAlias = Mapping[str, tuple[object, bool]]
"""Columns by their names: the type in terms of the table's format, and whether a value may be
missing."""


class RunTable(ABC, Generic[T]):
    """The table of a format, `T` at one snapshot, as one run sees it. Methods block and raise
    OutputError."""

    label: str
    """The field of the contract, such as `output.delta`."""

    options: dict[str, str]
    """Those of its clients, with credentials."""

    @abstractmethod
    def load(self) -> T | None:
        """Return the table at its newest snapshot; None if it does not exist."""

    @abstractmethod
    def create(self, columns: pyarrow.Schema) -> T:
        """Create the table unless another attempt does."""

    @abstractmethod
    def obstacle(self, table: T) -> str:
        """Return what requires more of writers than to add whole files; empty if nothing does."""

    @abstractmethod
    def fields(self, table: T, columns: pyarrow.Schema) -> tuple[Fields, Fields]:
        """Return the columns of the table, and those of the results as they would be in it."""

    @abstractmethod
    def found(self, table: T) -> TableVerdict | None:
        """Return what the snapshot says about the run."""

    @abstractmethod
    def commit(self, table: T, outcome: TableVerdict, parts: Sequence[StoredPart]) -> bool:
        """Add the parts and the outcome to the table; False if the snapshot is not the newest one
        any more."""

    def outcome(self) -> TableVerdict | None:
        """Return what the table says; None if it says nothing, or does not exist."""
        with table_errors(OutputError, self.label, self.options):
            table = self.load()
            return None if table is None else self.found(table)

    def prepare(self, columns: pyarrow.Schema) -> None:
        """Create the table with these columns, or check that it takes them."""
        for column in columns:
            if not _is_storable(column.type):
                text = f"column {column.name!r} has the type {column.type}, which tables do not have; set types.{column.name}"
                raise OutputError(f"{self.label}: {text}", is_retryable=False)
        plain = pyarrow.schema([field.remove_metadata() for field in columns])
        with table_errors(OutputError, self.label, self.options):
            table = self.load() or self.create(plain)
            if fault := self.obstacle(table) or _misfit(*self.fields(table, plain)):
                raise OutputError(f"{self.label}: {fault}", is_retryable=False)

    def decide(
        self, outcome: TableVerdict, parts: Sequence[StoredPart] = ()
    ) -> TableVerdict | None:
        """Add the parts to the table, or let no attempt add them later, unless it is decided;
        return what is decided then.

        None: there is no table.
        """
        for _ in range(_CONFLICTS):
            with table_errors(OutputError, self.label, self.options):
                table = self.load()
                if table is None or (found := self.found(table)) is not None:
                    return None if table is None else found
                if self.commit(table, outcome, parts):
                    return outcome
        raise OutputError(f"{self.label}: other writers commit to the table all the time")


class TableOutput:
    """The results of one run in a table."""

    delivery: Delivery = "ExactlyOnce"

    # Any: no method depends on it
    def __init__(self, store: OutputStore, table: RunTable[Any]) -> None:
        """`store` is that of the label `file` or `s3`. Raises ContractError for one that keeps no
        files."""
        found = store.abilities
        if not (found.find_commit and found.abort and found.committed_parts and found.probe):
            raise ContractError(f"{table.label}: the store of its files cannot be asked for them")
        self._files, self._table = store, table
        self._find_commit, self._abort = found.find_commit, found.abort
        self._committed_parts, self._probe = found.committed_parts, found.probe
        self.writer = store.writer
        self.abilities = replace(
            found,
            typed=replace(found.typed, label=table.label) if found.typed else None,
            find_commit=self.find_commit,
            abort=self.abort,
            committed_parts=None,
            probe=self.probe,
        )

    async def open(self) -> Checkpoint:
        """Read what is committed; commit the run if all of its parts are complete and an attempt
        died before it did."""
        if await asyncio.to_thread(self._table.outcome) == TableVerdict.ABORTED:
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

    async def finish(self, counts: Counts) -> CommittedRun:
        """Complete the parts, and add them to the table. If the call is cancelled, the transaction
        under way decides."""
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
        return await self._find_commit() if outcome == TableVerdict.COMMITTED else None

    async def abort(self) -> CommittedRun | None:
        """Let the table say that the run is aborted, unless it says that the run is committed.

        Without a table no attempt has come far; if none has completed its parts, the manifest is
        taken instead.
        """
        outcome = await asyncio.to_thread(self._table.decide, TableVerdict.ABORTED)
        run = await self._abort()
        if outcome is None and run is not None:
            outcome = await asyncio.to_thread(self._table.decide, TableVerdict.ABORTED)
        return run if outcome == TableVerdict.COMMITTED else None

    async def probe(self) -> str:
        """Check the place of the files, and that the table can be read."""
        await asyncio.to_thread(self._table.outcome)
        return await self._probe()

    async def _add(self) -> None:
        parts = await self._committed_parts()
        outcome = await asyncio.to_thread(self._table.decide, TableVerdict.COMMITTED, parts)
        if outcome is None:
            text = f"{self._table.label}: the table was deleted during the run; start a new run"
            raise OutputError(text, is_retryable=False)
        if outcome == TableVerdict.ABORTED:
            raise self._aborted()

    def _aborted(self) -> OutputError:
        text = f"{self._table.label}: the run has failed and was aborted; start a new run"
        return OutputError(text, is_retryable=False)


@contextmanager
def table_errors(error: type[RunnerError], what: str, options: Mapping[str, str]) -> Iterator[None]:
    """Raise `error` for those of all clients: of tables, catalogs, databases, pyarrow. Credentials
    are not shown."""
    try:
        yield
    except RunnerError:
        raise
    except Exception as failed:  # noqa: BLE001  they have no type in common
        text = f"{type(failed).__name__}: {failed}"
        for value in options.values():
            text = text.replace(value, "…") if len(value) > _SHORT else text
        raise error(f"{what}: the table cannot be used: {' '.join(text.split())[:300]}") from None


def _misfit(stored: Fields, given: Fields) -> str:
    """Return how the columns of a table differ from those of the results; empty if the results
    fit."""
    for name, (kind, _) in given.items():
        if name not in stored:
            return f"the table has no column {name!r}; add it, or use another table"
        if kind != stored[name][0]:
            return f"column {name!r} of the table is {stored[name][0]}, that of the results {kind}; set types.{name}"
    for name, (_, may_miss) in stored.items():
        if not may_miss and (name not in given or given[name][1]):
            return f"column {name!r} of the table must not be null, and the results may have none there"
    return ""


_PLAIN: Final = frozenset(
    {
        *(
            pyarrow.bool_(),
            pyarrow.int8(),
            pyarrow.int16(),
            pyarrow.int32(),
            pyarrow.int64(),
            pyarrow.float32(),
        ),
        *(
            pyarrow.float64(),
            pyarrow.string(),
            pyarrow.large_string(),
            pyarrow.binary(),
            pyarrow.large_binary(),
        ),
        *(pyarrow.date32(), pyarrow.timestamp("us"), pyarrow.timestamp("us", tz="UTC")),
    }
)
"""Types whose values in a file of Parquet are read unchanged as those of a table."""


def _is_storable(kind: pyarrow.DataType) -> bool:
    if types.is_struct(kind):
        return all(_is_storable(kind.field(at).type) for at in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_storable(kind.value_type)
    return kind in _PLAIN or bool(types.is_decimal128(kind))

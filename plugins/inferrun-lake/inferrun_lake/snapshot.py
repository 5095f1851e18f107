"""A table as input, at one snapshot: which one is decided when the run begins, and every attempt
reads the same.

The name of the snapshot is part of the fingerprint, so every output keeps it. A chunk is a range of
rows of a file, and a file is read on by the next chunk. Blocks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow

from inferrun.plugins import (
    Block,
    Chunk,
    InputError,
    InputPlan,
    PlannedObject,
    SourceAbilities,
    StoreContext,
)
from inferrun.plugins.limits import MIB

BATCH_ROWS: Final = 16_384
"""Rows that are decoded at a time."""

_CHUNKS: Final = 128
_SMALLEST, _LARGEST = MIB // 64, 4 * MIB


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """The rows of one file of a snapshot."""

    name: str
    rows: int
    size: int
    batches: Callable[[], Iterator[pyarrow.RecordBatch]]


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table at one time."""

    table: str
    """Where the table is."""

    fingerprint: str
    """What distinguishes the table from one that is created in its place, then "@" and the
    version."""

    columns: pyarrow.Schema
    """Those of the table that are used."""
    files: Sequence[SnapshotFile]


class SnapshotSource:
    """The rows of a snapshot."""

    def __init__(
        self,
        load: Callable[[str], TableSnapshot],
        context: StoreContext,
        *,
        label: str,
        allow_empty: bool,
    ) -> None:
        """`load` returns a snapshot by its version; empty: the one that a new run reads. It raises
        InputError."""
        self._load = load
        self._label = label
        self._allow_empty = allow_empty
        self._services = context.services
        self._columns = context.columns
        self._chunk_bytes = context.limits.chunk_bytes
        self._snapshot = load("")
        self._cursor: _Cursor | None = None
        self.fingerprint = self._snapshot.fingerprint
        self.abilities = SourceAbilities(adopt=self.adopt, first_chunk=self.first_chunk)

    def plan(self) -> InputPlan:
        """Divide the files into ranges of rows. Raises InputError if there are none and must be
        some."""
        found = self._snapshot
        size, rows = sum(file.size for file in found.files), sum(file.rows for file in found.files)
        if not (rows or self._allow_empty):
            text = f"{self._label}: the table has no rows; set allowEmpty: true if it may be empty"
            raise InputError(text, is_retryable=False)
        wanted = self._chunk_bytes or min(max(-(-size // _CHUNKS), _SMALLEST), _LARGEST)
        at_once = max(1, wanted * rows // max(size, 1))
        chunks: list[Chunk] = []
        first = 0
        for unit, file in enumerate(found.files):
            for start in range(0, file.rows, at_once):
                records = min(at_once, file.rows - start)
                chunks.append(Chunk(len(chunks), unit, start, start + records, first, records))
                first += records
        return InputPlan(
            fingerprint=self.fingerprint,
            chunks=tuple(chunks),
            objects=(PlannedObject(found.table, size, self.fingerprint.rpartition("@")[2]),),
            schema=bytes(found.columns.serialize()),
        )

    def adopt(self, plan: InputPlan) -> None:
        """Read the snapshot of the plan."""
        table, _, version = plan.fingerprint.rpartition("@")
        if plan.fingerprint != self.fingerprint and table == self.fingerprint.rpartition("@")[0]:
            self._snapshot, self._cursor = self._load(version), None
            self.fingerprint = self._snapshot.fingerprint

    def first_chunk(self) -> Chunk | None:
        """Return the first chunk: nothing has to be counted."""
        return next(iter(self.plan().chunks), None)

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the rows of a range."""
        file = self._snapshot.files[chunk.unit]
        cursor, self._cursor = self._cursor, None
        if cursor is None or (cursor.unit, cursor.row) != (chunk.unit, chunk.start):
            cursor = _Cursor(chunk.unit, file.batches(), start=chunk.start)
        for batch in cursor.until(chunk.end):
            yield self._services.block_of(batch, self._columns)
        if cursor.row != chunk.end:
            raise InputError(
                f"{self._label}: {file.name} has fewer rows than the table says", is_retryable=False
            )
        self._cursor = cursor

    def verify(self) -> None:
        """A snapshot does not change."""


class _Cursor:
    """A file that is being read, and the row that is next."""

    def __init__(self, unit: int, batches: Iterator[pyarrow.RecordBatch], *, start: int) -> None:
        self.unit = unit
        self.row = 0
        self._batches = batches
        self._held: pyarrow.RecordBatch | None = None
        for _ in self.until(start):
            pass

    def until(self, stop: int) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows before `stop`, fewer if the file ends."""
        while self.row < stop:
            held = self._held if self._held is not None else next(self._batches, None)
            if held is None:
                return
            taken = held.slice(0, stop - self.row)
            self._held = held.slice(taken.num_rows) if taken.num_rows < held.num_rows else None
            self.row += taken.num_rows
            yield taken

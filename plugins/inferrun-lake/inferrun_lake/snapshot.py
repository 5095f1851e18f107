"""A table as input, at one snapshot: which one is decided when the run begins, and every attempt reads the same.

The name of the snapshot is part of the fingerprint, so every output keeps it. A chunk is a range of rows of a file; it becomes an
Arrow file in memory, which the format `arrow` reads, so the columns are used as those of files are. Blocks.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow
from pyarrow import ipc

from inferrun.plugins import (
    Block,
    Chunk,
    InputError,
    InputPlan,
    PlannedObject,
    StoreContext,
)
from inferrun.plugins.limits import MIB

BATCH_ROWS: Final = 16_384
"""Rows that are decoded at a time."""

_CHUNKS: Final = 128
_SMALLEST, _LARGEST = MIB // 64, 4 * MIB


@dataclass(frozen=True, slots=True)
class TableFile:
    """The rows of one file of a snapshot."""

    name: str
    rows: int
    size: int
    batches: Callable[[], Iterator[pyarrow.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one time."""

    table: str
    """Where the table is."""

    identity: str
    """What distinguishes the table from one that is created in its place."""

    version: str
    columns: pyarrow.Schema
    """Those of the table that are used."""

    files: Sequence[TableFile]

    @property
    def fingerprint(self) -> str:
        """What identifies the rows."""
        return f"{self.identity}@{self.version}"


class SnapshotSource:
    """The rows of a snapshot."""

    def __init__(
        self, load: Callable[[str], Snapshot], context: StoreContext, *, label: str, allow_empty: bool
    ) -> None:
        """`load` returns a snapshot by its version; empty: the one that a new run reads. It raises InputError."""
        self._load = load
        self._label = label
        self._allow_empty = allow_empty
        self._format = context.format_named("arrow", label)
        self._limits = context.limits
        self._snapshot = load("")
        self._cursor: _Cursor | None = None
        self.fingerprint = self._snapshot.fingerprint

    def plan(self) -> InputPlan:
        """Divide the files into ranges of rows. Raises InputError if there are none and must be some."""
        found = self._snapshot
        size, rows = sum(file.size for file in found.files), sum(file.rows for file in found.files)
        if not (rows or self._allow_empty):
            raise self._empty()
        wanted = self._limits.chunk_bytes or min(max(-(-size // _CHUNKS), _SMALLEST), _LARGEST)
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
            objects=(PlannedObject(found.table, size, found.version),),
            schema=bytes(found.columns.serialize()),
        )

    def adopt(self, plan: InputPlan) -> None:
        """Read the snapshot of the plan."""
        identity, _, version = plan.fingerprint.rpartition("@")
        if identity == self._snapshot.identity and version != self._snapshot.version:
            self._snapshot, self._cursor = self._load(version), None
            self.fingerprint = self._snapshot.fingerprint

    def first_chunk(self) -> Chunk | None:
        """Return the beginning of the first file with rows."""
        for unit, file in enumerate(self._snapshot.files):
            if file.rows:
                return Chunk(0, unit, 0, min(file.rows, BATCH_ROWS), 0, min(file.rows, BATCH_ROWS))
        if not self._allow_empty:
            raise self._empty()
        return None

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the rows of a range."""
        file = self._snapshot.files[chunk.unit]
        cursor, self._cursor = self._cursor, None
        if cursor is None or (cursor.unit, cursor.row) != (chunk.unit, chunk.start):
            cursor = _Cursor(chunk.unit, file.batches(), start=chunk.start)
        batches = list(cursor.until(chunk.end))
        self._cursor = cursor
        table = pyarrow.Table.from_batches(batches, self._snapshot.columns)
        if table.num_rows != chunk.records:
            text = f"{self._label}: {file.name} has other rows than the table says"
            raise InputError(text, is_retryable=False)
        content = pyarrow.BufferOutputStream()
        with ipc.new_file(content, table.schema) as out:
            out.write_table(table, max_chunksize=max(1, min(BATCH_ROWS, table.num_rows * MIB // max(table.nbytes, 1))))
        range_ = Chunk(chunk.index, 0, 0, chunk.records, chunk.first, chunk.records)
        yield from self._format.read(_Rows(file.name, content.getvalue()), range_, limits=self._limits)

    def verify(self) -> None:
        """A snapshot does not change."""

    def _empty(self) -> InputError:
        text = f"{self._label}: the table has no rows; set allowEmpty: true if it may be empty"
        return InputError(text, is_retryable=False)


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


@dataclass(frozen=True, slots=True)
class _Rows:
    """An Arrow file in memory."""

    name: str
    content: pyarrow.Buffer

    @property
    def size(self) -> int:
        """The size in bytes."""
        return int(self.content.size)

    def open(self) -> BinaryIO:
        """Open the file."""
        return io.BytesIO(self.content.to_pybytes())

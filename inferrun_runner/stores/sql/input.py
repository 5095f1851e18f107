"""The input store `sql`: the rows of a query, as typed columns.

Without a key, each Pod executes the query once and spools its rows to disk: it may return them in
another order next time, so the fingerprint is a hash of the rows. With a key, one or several
columns that identify a row, nothing is spooled: chunks are ranges of keys, and the fingerprint is
the number of rows and a sum of their hashes, which the server computes.

Rows are read in read-only transactions. A column `custom_id` is copied to the results. If there is
none, the key is the id: an integer, its text, or of several columns the text of a JSON array.
Imports pyarrow.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pyarrow

from inferrun.formats.copy_text import quoted
from inferrun.plugins import (
    Block,
    Chunk,
    ColumnSelection,
    InputError,
    InputFile,
    InputPlan,
    Limits,
    Source,
    SourceAbilities,
    StorageObject,
    StoreContext,
)
from inferrun.plugins.limits import KIB
from inferrun.plugins.storage import read_spec
from inferrun.stores.sql import SqlStorage, bound_values
from inferrun_runner.stores.file_ranges import chunk_size
from inferrun_runner.stores.input_spool import InputSpool, spool_folder
from inferrun_runner.stores.sql.database import Database, Transaction, open_database
from inferrun_runner.stores.sql.rows import Rows, canonical, row_key, rows_of

_RANGE_BYTES: Final = 256 << 20
"""Memory of the rows of one chunk, which has a few megabytes."""

_SPOOLED_BYTES: Final = 64 * KIB
"""Memory of the rows that are spooled at once; the same in all attempts, because the fingerprint
depends on it."""


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `sql` under `input`."""
    own, values = bound_values(spec)
    wanted = read_spec(own, SqlStorage, field="input.sql")
    secret = wanted.credentials_ref.name
    database = await open_database(
        context, secret=secret, side="input", error=InputError, values=values
    )
    limits = context.limits
    if wanted.key:
        yield await asyncio.to_thread(KeyRanges, database, wanted, context.columns, limits)
        return
    with spool_folder(context.spool_dir) as folder:
        spool = InputSpool(
            folder / "the rows of the query",
            limit=limits.spool_bytes,
            what="input.sql.query: it returned",
            fix="set input.sql.key, limit the query, or ",
        )
        yield await asyncio.to_thread(_spooled, database, wanted, context.columns, spool, limits)


class SpooledRows:
    """Rows on the Pod's disk, in batches. All methods block."""

    abilities = SourceAbilities()

    def __init__(
        self,
        rows: Rows,
        file: InputFile,
        batches: Sequence[tuple[int, int]],
        *,
        fingerprint: str,
        limits: Limits,
    ) -> None:
        """`batches` are the size in bytes and the number of rows of each batch in the file."""
        self.fingerprint = fingerprint
        self._rows = rows
        self._file = file
        self._batches = batches
        self._limits = limits

    def plan(self) -> InputPlan:
        """Divide the rows into ranges with about as many bytes as a chunk of a file."""
        count = sum(rows for _, rows in self._batches)
        size = chunk_size(self._file.size, configured=self._limits.chunk_bytes)
        rows = max(1, size * count // max(self._file.size, 1))
        starts = enumerate(range(0, count, rows))
        chunks = tuple(
            Chunk(at, 0, first, min(first + rows, count), first, min(rows, count - first))
            for at, first in starts
        )
        return InputPlan(self.fingerprint, chunks, schema=bytes(self._rows.schema.serialize()))

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Read the batches that contain the rows of a chunk."""
        place = first = 0
        with self._file.open() as source:
            for size, rows in self._batches:
                start, end = max(chunk.start - first, 0), min(chunk.end - first, rows)
                if start < end:
                    source.seek(place)
                    received = self._rows.restored(source.read(size)).slice(start, end - start)
                    yield self._rows.block(received, first=first + start)
                place, first = place + size, first + rows

    def verify(self) -> None:
        """Do nothing: what was read cannot change."""


class KeyRanges:
    """The rows of a query with a key. All methods block."""

    def __init__(
        self, database: Database, spec: SqlStorage, columns: ColumnSelection, limits: Limits
    ) -> None:
        self._database = database
        self._query = _inner(spec.statement)
        self._names = spec.key
        self._keys = [quoted(name) for name in spec.key]
        self._limits = limits
        self._boundaries: Sequence[tuple[str, ...]] = ()
        self._rows, self._key, found = database.read(
            lambda reading: (
                rows_of(reading, self._query, columns, keys=spec.key),
                row_key(reading, self._query, spec.key),
                self._fingerprint(reading),
            )
        )
        self.fingerprint, self._count, self._bytes = found
        self.abilities = SourceAbilities(adopt=self.adopt)

    def plan(self) -> InputPlan:
        """Divide the keys into ranges with about as many bytes as a chunk of a file."""
        schema = bytes(self._rows.schema.serialize())
        if self._count == 0:
            return InputPlan(fingerprint=self.fingerprint, schema=schema)
        size = chunk_size(self._bytes, configured=self._limits.chunk_bytes)
        rows = max(1, size * self._count // max(self._bytes, 1))
        self._boundaries = self._database.read(lambda reading: self._find_boundaries(reading, rows))
        chunks = [
            Chunk(at, 0, at, at + 1, at * rows, min(rows, self._count - at * rows))
            for at in range(len(self._boundaries))
        ]
        return InputPlan(
            self.fingerprint, tuple(chunks), boundaries=tuple(self._boundaries), schema=schema
        )

    def adopt(self, plan: InputPlan) -> None:
        """Use the boundaries of a plan that another attempt may have made."""
        if (
            plan.schema
            and pyarrow.ipc.read_schema(pyarrow.py_buffer(plan.schema)) != self._rows.schema
        ):
            raise InputError(
                "the columns of the query have changed since the run began; start a new run"
            )
        self._boundaries = plan.boundaries

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Read the rows of a range of keys."""
        first = chunk.first
        for received in self._database.read(lambda reading: self._range(reading, chunk)):
            yield self._rows.block(received, first=first)
            first += received.num_rows

    def verify(self) -> None:
        """Raise InputError if the rows have changed since the input was opened."""
        found, _, _ = self._database.read(self._fingerprint)
        if found != self.fingerprint:
            raise InputError(
                "the rows of the query changed while they were being read; start a new run"
            )

    def _range(self, reading: Transaction, chunk: Chunk) -> list[pyarrow.RecordBatch]:
        bounds = {">=": self._boundaries[chunk.start]}
        if chunk.end < len(self._boundaries):
            bounds["<"] = self._boundaries[chunk.end]
        conditions = []
        for number, (operator, values) in enumerate(bounds.items()):
            reading.bind({f"inferrun.bound{number}_{at}": value for at, value in enumerate(values)})
            conditions.append(
                self._key.compared(
                    operator, [f"inferrun.bound{number}_{at}" for at in range(len(values))]
                )
            )
        query = (
            f"select {self._rows.selected()} from {self._query} where {' and '.join(conditions)} "  # noqa: S608  names and the user's query
            # a name alone would be what is selected: a text
            f"order by {', '.join(f'q.{key}' for key in self._keys)}"
        )
        found: list[pyarrow.RecordBatch] = []
        size = 0
        with reading.batches(query) as batches:
            for batch in batches:
                size += batch.nbytes
                if size > _RANGE_BYTES:
                    raise InputError(
                        "input.sql: the rows of one chunk have more than 256 MiB; set a smaller limits.chunk"
                    )
                found.append(self._rows.received(batch))
        return found

    def _fingerprint(self, reading: Transaction) -> tuple[str, int, int]:
        """Read all rows, at the server, and return their fingerprint, number and size. Raises
        InputError without a unique key."""
        is_null = " or ".join(f"{key} is null" for key in self._keys)
        text = (
            f"select count(*)::text, count(distinct ({', '.join(self._keys)}))::text, "  # noqa: S608  names and the user's query
            "coalesce(sum(octet_length(q.*::text)), 0)::text, "
            "coalesce(sum(hashtextextended(q.*::text, 0)::numeric), 0)::text, "
            "coalesce(sum(hashtextextended(q.*::text, 1)::numeric), 0)::text, "
            f"count(*) filter (where {is_null})::text from {self._query}"
        )
        (row,) = reading.rows(text)
        count, distinct, size, _, _, without = map(int, map(str, row))
        if distinct != count or without:
            raise InputError(
                f"input.sql.key: {', '.join(self._names)} has {count} rows, but {distinct} different keys, and {without} without; "
                "it must be unique, and never null",
                is_retryable=False,
            )
        return (
            "rows-sha256:" + hashlib.sha256("\t".join(map(str, row)).encode()).hexdigest(),
            count,
            size,
        )

    def _find_boundaries(self, reading: Transaction, rows: int) -> list[tuple[str, ...]]:
        keys = ", ".join(self._keys)
        # This server compares the boundaries, so it must have sorted the rows, too: that of a
        # foreign table may have another collation. postgres_fdw leaves the order to this server if
        # a function in it is not immutable, such as `format`.
        last = f"format('%s', {self._keys[0]})"
        names = [f"key{at}" for at in range(len(self._keys))]
        text = (
            f"select {', '.join(f'{name}::text' for name in names)} "  # noqa: S608  names and the user's query
            f"from (select {keys}, row_number() over (order by {keys}, {last}) from {self._query}) n({', '.join(names)}, number) "
            f"where (number - 1) % {rows} = 0 order by number"
        )
        return [tuple(map(str, row)) for row in reading.rows(text)]


def _inner(query: str) -> str:
    # A row is `q.*`: `q` alone would be the column of that name, if the query has one. The line
    # break ends a comment at the end of the query. The text is the user's own, and runs with the
    # user's own rights.
    return f"({query}\n) q"


def _spooled(
    database: Database,
    spec: SqlStorage,
    columns: ColumnSelection,
    spool: InputSpool,
    limits: Limits,
) -> SpooledRows:
    """Execute the query, and write its rows to the spool."""
    query = _inner(spec.statement)

    def write(reading: Transaction) -> SpooledRows:
        rows = rows_of(reading, query, columns)
        written: list[tuple[int, int]] = []
        selected = f"select {rows.selected()} from {query}"  # noqa: S608  names and the user's query
        with spool.opened(), reading.batches(selected, batch_bytes=_SPOOLED_BYTES) as batches:
            for batch in batches:
                message = canonical(rows.received(batch)).serialize()
                spool.write(message)
                written.append((message.size, batch.num_rows))
        return SpooledRows(
            rows, spool.file, written, fingerprint=f"rows-sha256:{spool.digest}", limits=limits
        )

    return database.read(write)

"""The input store `sql`: the rows of a query.

Without a key, each Pod executes the query once and spools its rows to disk: it may return them in another order next time, so the
fingerprint is a hash of the rows. With a key, a column of unique integers, nothing is spooled: chunks are ranges of keys, and the
fingerprint is the number of rows and a sum of their hashes, which the server computes.

Rows are copied as CSV, in a read-only transaction, one per line: line breaks in texts are escaped. A column `custom_id` is copied
to the results, and so is the key if there is no such column.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, cast

from psycopg import sql

from inferrun.formats.csv.format import ESCAPES, NULL, Csv
from inferrun.plugins import (
    Block,
    Chunk,
    InputError,
    InputPlan,
    Limits,
    RecordFormat,
    Source,
    StorageObject,
    StoreContext,
)
from inferrun.plugins.storage import read_spec
from runner.stores.dataset import spooled
from runner.stores.file.local_files import MemoryFile
from runner.stores.file_ranges import FileRanges, chunk_size
from runner.stores.input_spool import InputSpool, spool_folder
from runner.stores.sql.database import Connection, Database, open_database
from runner.stores.sql.spec import SqlInputSpec

_ID: Final = "custom_id"
_BOOLEAN: Final = 16
_INTEGERS: Final = frozenset({20, 21, 23})
"""The types bigint, smallint and integer."""

_NUMBERS: Final = frozenset({*_INTEGERS, 700, 701, 1700})
"""Those, real, double precision and numeric."""

_RANGE_BYTES: Final = 256 << 20
"""Memory of the rows of one chunk, which has a few megabytes."""


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `sql` under `input`."""
    wanted = read_spec(spec, SqlInputSpec, field="input.sql")
    secret, values = wanted.credentials_ref.name, wanted.values
    database = await open_database(context, secret=secret, side="input", error=InputError, values=values)
    limits = context.limits
    table = cast("Csv", context.format_named("csv", "input.sql")).with_escapes()
    if wanted.key:
        yield await asyncio.to_thread(KeyRanges, database, wanted, table, limits)
        return
    with spool_folder(context.spool_dir) as folder:
        spool = InputSpool(
            folder / "the rows of the query",
            limit=limits.spool_bytes,
            what="input.sql.query: it returned",
            fix="set input.sql.key, limit the query, or ",
        )
        await asyncio.to_thread(_spool, database, wanted, spool)
        yield FileRanges(spooled(spool.file, f"rows-sha256:{spool.digest}"), record_format=table, limits=limits)


class KeyRanges:
    """The rows of a query with a key. All methods block."""

    def __init__(self, database: Database, spec: SqlInputSpec, table: RecordFormat, limits: Limits) -> None:
        self._database = database
        self._query = _inner(spec.query)
        self._key = sql.Identifier(spec.key)
        self._name = spec.key
        self._format = table
        self._limits = limits
        self._columns = database.transact(self._read_columns)
        self.fingerprint, self._count, self._bytes = database.transact(self._fingerprint)

    def plan(self) -> InputPlan:
        """Divide the keys into ranges with about as many bytes as a chunk of a file."""
        if self._count == 0:
            return InputPlan(fingerprint=self.fingerprint)
        size = chunk_size(self._bytes, configured=self._limits.chunk_bytes)
        rows = max(1, size * self._count // max(self._bytes, 1))
        keys = self._database.transact(lambda connection: self._boundaries(connection, rows))
        starts, last = keys[:-1], keys[-1]
        chunks = [
            Chunk(at, 0, start, stop, at * rows, min(rows, self._count - at * rows))
            for at, (start, stop) in enumerate(zip(starts, [*starts[1:], last + 1], strict=True))
        ]
        return InputPlan(fingerprint=self.fingerprint, chunks=tuple(chunks))

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Copy the rows of a range of keys."""
        rows = sql.SQL("select {} from {} where {} >= {} and {} < {} order by {}").format(
            self._columns, self._query, self._key, chunk.start, self._key, chunk.end, self._key
        )
        content = self._database.transact(lambda connection: _copied(connection, rows))
        file = MemoryFile(f"the rows with {self._name} from {chunk.start} to {chunk.end - 1}", content)
        whole = Chunk(chunk.index, 0, 0, len(content), chunk.first, chunk.records)
        return self._format.read(file, whole, limits=self._limits)

    def verify(self) -> None:
        """Raise InputError if the rows have changed since the input was opened."""
        found, _, _ = self._database.transact(self._fingerprint)
        if found != self.fingerprint:
            raise InputError("the rows of the query changed while they were being read; start a new run")

    def _read_columns(self, connection: Connection) -> sql.Composable:
        cursor = connection.execute(sql.SQL("select * from {} limit 0").format(self._query))
        types = {column.name: column.type_code for column in cursor.description or ()}
        if self._name not in types or types[self._name] not in _INTEGERS:
            raise InputError(
                f"input.sql.key: {self._name!r} must be a column of the query of the type smallint, integer or bigint; it has "
                f"{', '.join(list(types)[:20]) or 'no columns'}",
                is_retryable=False,
            )
        columns = [_selected(name, code) for name, code in types.items() if name != self._name]
        _check_columns([name for name in types if name != self._name])
        if _ID not in types:
            columns.append(sql.SQL("{} as {}").format(self._key, sql.Identifier(_ID)))
        return sql.SQL(", ").join(columns)

    def _fingerprint(self, connection: Connection) -> tuple[str, int, int]:
        """Read all rows, at the server, and return their fingerprint, number and size. Raises InputError without a unique key."""
        text = (
            "select count(*), count(distinct {key}), coalesce(sum(octet_length({row}::text)), 0), "
            "coalesce(sum(hashtextextended({row}::text, 0)::numeric), 0), "
            "coalesce(sum(hashtextextended({row}::text, 1)::numeric), 0) from {query}"
        )
        found = sql.SQL(text).format(key=self._key, row=sql.Identifier("q"), query=self._query)
        row = connection.execute(found).fetchone() or (0, 0, 0, 0, 0)
        count, distinct, size = (int(str(value)) for value in row[:3])
        if distinct != count:
            raise InputError(
                f"input.sql.key: column {self._name!r} has {count} rows, but {distinct} different keys; it must be unique, and "
                "never null",
                is_retryable=False,
            )
        return "rows-sha256:" + hashlib.sha256("\t".join(map(str, row)).encode()).hexdigest(), count, size

    def _boundaries(self, connection: Connection, rows: int) -> list[int]:
        text = (
            "select {key} from (select {key}, row_number() over (order by {key}) as inferrun_number from {query}) numbered "
            "where (inferrun_number - 1) % {rows} = 0 order by {key}"
        )
        found = connection.execute(sql.SQL(text).format(key=self._key, query=self._query, rows=rows)).fetchall()
        last = connection.execute(sql.SQL("select max({}) from {}").format(self._key, self._query)).fetchone()
        return [int(str(value)) for (value,) in [*found, last or (0,)]]


def _inner(query: str) -> sql.Composable:
    # The line break ends a comment at the end of the query. The text is the user's own, and runs with the user's own rights.
    return sql.SQL("(") + sql.SQL(query) + sql.SQL("\n) q")


def _check_columns(names: Sequence[str]) -> None:
    if not set(names) - {_ID}:
        raise InputError(
            f"input.sql.query: it must have a column for the model, besides the key and {_ID}", is_retryable=False
        )


def _selected(name: str, code: int) -> sql.Composable:
    column = sql.Identifier(name)
    if code == _BOOLEAN:
        return sql.SQL("{}::int as {}").format(column, column)
    if code in _NUMBERS:
        return column
    escaped: sql.Composable = sql.SQL("{}::text").format(column)
    for raw, text in ESCAPES.items():
        escaped = sql.SQL("replace({}, {}, {})").format(escaped, sql.Literal(raw), sql.Literal(text))
    return sql.SQL("{} as {}").format(escaped, column)


def _copied(connection: Connection, rows: sql.Composable) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for piece in _copy(connection, rows):
        size += len(piece)
        if size > _RANGE_BYTES:
            raise InputError(
                "input.sql: the rows of one chunk have more than 256 MiB; set a smaller limits.chunk in the config"
            )
        pieces.append(piece)
    return b"".join(pieces)


def _copy(connection: Connection, rows: sql.Composable) -> Iterator[bytes]:
    """Copy the rows. The only value of a row is never empty or blank, because an empty line would not be a record."""
    connection.execute("set transaction read only")
    described = connection.execute(sql.SQL("select * from ({}) r limit 0").format(rows)).description or ()
    null = sql.Literal(NULL if len(described) == 1 else "")
    is_text = len(described) == 1 and described[0].type_code not in _NUMBERS
    quoted = sql.SQL(", force_quote *" if is_text else "")
    command = sql.SQL("copy ({}) to stdout (format csv, header true, null {}{})").format(rows, null, quoted)
    with connection.cursor().copy(command) as copy:
        yield from map(bytes, copy)


def _spool(database: Database, spec: SqlInputSpec, spool: InputSpool) -> None:
    query = _inner(spec.query)

    def copy(connection: Connection) -> None:
        described = connection.execute(sql.SQL("select * from {} limit 0").format(query)).description or ()
        _check_columns([column.name for column in described])
        columns = [_selected(column.name, column.type_code) for column in described]
        rows = sql.SQL("select {} from {}").format(sql.SQL(", ").join(columns), query)
        with spool.opened():
            for piece in _copy(connection, rows):
                spool.write(piece)

    database.transact(copy)

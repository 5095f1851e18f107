"""Stores over SQLite, as another package would bring them: label `sqlite{path, table}`, tables of the claims' databases.

The input table's column `id` orders the rows, every other column is a number. In the output a run's rows, its chunks and its
commit are rows with a primary key, so that whoever inserts them first wins.
"""

import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from inferrun.runner_report import Delivery, Output
from runner.errors import ContractError, InputError, OutputError
from runner.seams import OutputStore, Source, StorageObject, Surroundings
from runner.settings import Settings
from runner.values import Chunk, Counts, Cut, Finished, Json, Memory, Records

_ROWS_PER_CHUNK = 64

_TABLES = """
create table if not exists run (run text primary key, fingerprint text, chunk_size integer, total integer);
create table if not exists chunk (run text, number integer, records integer, primary key (run, number));
create table if not exists prediction (run text, place integer, value text, primary key (run, place));
create table if not exists done (run text primary key, total integer, completed integer, failed integer);
"""


class SqliteSource:
    """The rows of a table, in the order of their ids."""

    def __init__(self, connection: sqlite3.Connection, table: str, settings: Settings) -> None:
        self._connection = connection
        self._table = table
        self._settings = settings
        self.fingerprint = self._fingerprint()

    def survey(self) -> Cut:
        """Count the rows."""
        size = self._settings.chunk_bytes or _ROWS_PER_CHUNK
        return Cut(fingerprint=self.fingerprint, chunk_size=size, total=self._count())

    def chunks(self, cut: Cut) -> Sequence[Chunk]:
        """Ranges of rows."""
        starts = range(0, cut.total, cut.chunk_size)
        return [Chunk(index, 0, start, min(start + cut.chunk_size, cut.total)) for index, start in enumerate(starts)]

    def read(self, chunk: Chunk, *, first: int) -> Iterator[Records]:
        """The rows of a range."""
        for start in range(chunk.start, chunk.end, self._settings.batch_rows):
            count = min(self._settings.batch_rows, chunk.end - start)
            query = f"select * from {self._table} order by id limit ? offset ?"  # noqa: S608  checked to be a name
            rows = [list(row[1:]) for row in self._connection.execute(query, (count, start))]
            if not all(isinstance(value, (int, float)) for row in rows for value in row):
                raise InputError(f"input.sqlite.table: {self._table} holds something that is not a number")
            yield Records(first=first + start - chunk.start, rows=rows)

    def verify(self) -> None:
        """Compare the table with what it was."""
        if self._fingerprint() != self.fingerprint:
            raise InputError("the table changed while it was read")

    def _count(self) -> int:
        (count,) = self._connection.execute(f"select count(*) from {self._table}").fetchone()  # noqa: S608  a name
        return int(count)

    def _fingerprint(self) -> str:
        rows = self._connection.execute(f"select * from {self._table} order by id")  # noqa: S608  a name
        return hashlib.sha256(repr(list(rows)).encode()).hexdigest()


class SqliteOutput:
    """The predictions of a run, in tables that all runs share."""

    delivery: Delivery = "ExactlyOnce"

    def __init__(self, connection: sqlite3.Connection, path: Path, run: str) -> None:
        self._connection = connection
        self._path = path
        self._run = run
        self._held: list[tuple[str, int, str]] = []

    async def open(self) -> Memory:
        """What is committed."""
        self._connection.executescript(_TABLES)
        query = "select fingerprint, chunk_size, total from run where run = ?"
        cut = self._connection.execute(query, (self._run,)).fetchone()
        query = "select count(*), coalesce(sum(records), 0) from chunk where run = ?"
        chunks, records = self._connection.execute(query, (self._run,)).fetchone()
        return Memory(Cut(*cut) if cut else None, chunks, records, self._finished())

    async def begin(self, cut: Cut) -> Cut:
        """Write the cut down, once."""
        with self._connection:
            values = (self._run, cut.fingerprint, cut.chunk_size, cut.total)
            self._connection.execute("insert or ignore into run values (?, ?, ?, ?)", values)
        query = "select fingerprint, chunk_size, total from run where run = ?"
        return Cut(*self._connection.execute(query, (self._run,)).fetchone())

    async def write(self, records: Records, predictions: Sequence[Json]) -> None:
        """Hold until the commit."""
        places = enumerate(predictions, start=records.first)
        self._held += [(self._run, place, json.dumps(value)) for place, value in places]

    async def commit(self, chunk: Chunk) -> None:
        """One transaction; if the chunk is there already, nothing happens."""
        held, self._held = self._held, []
        try:
            with self._connection:
                values = (self._run, chunk.index, len(held))
                self._connection.execute("insert into chunk values (?, ?, ?)", values)
                self._connection.executemany("insert into prediction values (?, ?, ?)", held)
        except sqlite3.IntegrityError:
            return

    async def finish(self, counts: Counts) -> Finished:
        """One row, once."""
        with self._connection:
            values = (self._run, counts.total, counts.completed, counts.failed)
            self._connection.execute("insert or ignore into done values (?, ?, ?, ?)", values)
        finished = self._finished()
        if finished is None:
            raise OutputError("output.sqlite: the commit vanished")
        return finished

    def _finished(self) -> Finished | None:
        query = "select total, completed, failed from done where run = ?"
        row = self._connection.execute(query, (self._run,)).fetchone()
        if row is None:
            return None
        total, completed, failed = row
        return Finished(total=total, completed=completed, failed=failed, output=Output(location=str(self._path)))


@asynccontextmanager
async def open_input(spec: StorageObject, around: Surroundings) -> AsyncIterator[Source]:
    """Label `sqlite` under `input`."""
    path, table = _text(spec, "path", side="input"), _text(spec, "table", side="input")
    if not table.isidentifier():
        raise ContractError(f"input.sqlite.table: a name is required, it is {table!r}")
    with _connected(around.settings.input_dir / path) as connection:
        try:
            yield SqliteSource(connection, table, around.settings)
        except sqlite3.Error as error:
            raise InputError(f"input.sqlite: {error}") from error


@asynccontextmanager
async def open_output(spec: StorageObject, around: Surroundings) -> AsyncIterator[OutputStore]:
    """Label `sqlite` under `output`."""
    path = around.settings.output_dir / _text(spec, "path", side="output")
    with _connected(path) as connection:
        yield SqliteOutput(connection, path, around.contract.run_id or around.contract.job_id)


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, check_same_thread=False)  # the pipeline reads on a thread, one at a time
    try:
        yield connection
    finally:
        connection.close()


def _text(spec: Mapping[str, Json], key: str, *, side: str) -> str:
    value = spec.get(key)
    if not isinstance(value, str) or not value:
        raise ContractError(f"{side}.sqlite.{key}: is required")
    return value

"""Stores for SQLite, as a third-party package would provide them. Label: `sqlite{path, table}`, a
database file on a claim.

The column `id` orders the rows of the input table; all other columns are numbers. In the output,
the predictions, chunks and commits are rows with a primary key, so the first attempt to insert them
wins.
"""

import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from inferrun.plugins import (
    Batch,
    Block,
    Checkpoint,
    Chunk,
    ChunkCommit,
    CommittedRun,
    ContractError,
    Counts,
    Delivery,
    InputError,
    InputPlan,
    Json,
    JsonRecords,
    Limits,
    Output,
    OutputError,
    OutputStore,
    ResultCounts,
    Results,
    Source,
    SourceAbilities,
    StorageObject,
    StoreAbilities,
    StoreContext,
)

_ROWS_PER_CHUNK = 64
_ROWS_PER_BLOCK = 10

_TABLES = """
create table if not exists run (run text primary key, fingerprint text, chunks text);
create table if not exists chunk (run text, number integer, completed integer, failed integer, primary key (run, number));
create table if not exists prediction (run text, place integer, value text, primary key (run, place));
create table if not exists done (run text primary key, total integer, completed integer, failed integer);
"""


class SqliteSource:
    """The rows of a table, in the order of their ids."""

    abilities = SourceAbilities()

    def __init__(self, connection: sqlite3.Connection, table: str, limits: Limits) -> None:
        self._connection = connection
        self._table = table
        self._limits = limits
        self.fingerprint = self._fingerprint()

    def plan(self) -> InputPlan:
        """Divide the rows into ranges."""
        size, total = self._limits.chunk_bytes or _ROWS_PER_CHUNK, self._count()
        ranges = ((start, min(start + size, total)) for start in range(0, total, size))
        chunks = tuple(
            Chunk(index, 0, start, end, start, end - start)
            for index, (start, end) in enumerate(ranges)
        )
        return InputPlan(self.fingerprint, chunks)

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """The rows of a range."""
        for start in range(chunk.start, chunk.end, _ROWS_PER_BLOCK):
            count = min(_ROWS_PER_BLOCK, chunk.end - start)
            query = f"select * from {self._table} order by id limit ? offset ?"  # noqa: S608  validated as a name
            rows = [list(row[1:]) for row in self._connection.execute(query, (count, start))]
            if not all(isinstance(value, (int, float)) for row in rows for value in row):
                raise InputError(
                    f"input.sqlite.table: {self._table} contains a value that is not a number"
                )
            yield Block(JsonRecords([json.dumps(row).encode() for row in rows]))

    def verify(self) -> None:
        """Compare the table with its fingerprint."""
        if self._fingerprint() != self.fingerprint:
            raise InputError("the table changed while it was being read")

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
        self.abilities = StoreAbilities(find_commit=self.find_commit, abort=self.abort)

    async def open(self) -> Checkpoint:
        """Read what is committed."""
        self._connection.executescript(_TABLES)
        query = "select number, completed, failed from chunk where run = ?"
        rows = self._connection.execute(query, (self._run,)).fetchall()
        committed = {
            number: ChunkCommit(ResultCounts(completed, failed), won=False)
            for number, completed, failed in rows
        }
        return Checkpoint(self._plan(), committed, self._committed_run())

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless there is one."""
        chunks = json.dumps(
            [[one.unit, one.start, one.end, one.first, one.records] for one in plan.chunks]
        )
        with self._connection:
            values = (self._run, plan.fingerprint, chunks)
            self._connection.execute("insert or ignore into run values (?, ?, ?)", values)
        return self._plan() or plan

    def _plan(self) -> InputPlan | None:
        query = "select fingerprint, chunks from run where run = ?"
        row = self._connection.execute(query, (self._run,)).fetchone()
        if row is None:
            return None
        fingerprint, chunks = row
        return InputPlan(
            fingerprint, tuple(Chunk(index, *one) for index, one in enumerate(json.loads(chunks)))
        )

    def writer(self, chunk: Chunk) -> "SqliteWriter":
        """Hold the results of a chunk until its commit."""
        return SqliteWriter(self._connection, self._run, chunk)

    async def finish(self, counts: Counts) -> CommittedRun:
        """Insert the commit unless there is one."""
        with self._connection:
            values = (self._run, counts.total, counts.completed, counts.failed)
            self._connection.execute("insert or ignore into done values (?, ?, ?, ?)", values)
        run = self._committed_run()
        if run is None:
            raise OutputError("output.sqlite: the run was aborted", is_retryable=False)
        return run

    async def find_commit(self) -> CommittedRun | None:
        """Read the commit."""
        self._connection.executescript(_TABLES)
        return self._committed_run()

    async def abort(self) -> CommittedRun | None:
        """Insert a row without a total in place of the commit, unless there is one."""
        self._connection.executescript(_TABLES)
        with self._connection:
            self._connection.execute(
                "insert or ignore into done values (?, null, 0, 0)", (self._run,)
            )
        return self._committed_run()

    def _committed_run(self) -> CommittedRun | None:
        query = "select total, completed, failed from done where run = ? and total is not null"
        row = self._connection.execute(query, (self._run,)).fetchone()
        if row is None:
            return None
        total, completed, failed = row
        return CommittedRun(
            total=total, completed=completed, failed=failed, output=Output(location=str(self._path))
        )


class SqliteWriter:
    """The results of one chunk."""

    def __init__(self, connection: sqlite3.Connection, run: str, chunk: Chunk) -> None:
        self._connection = connection
        self._run = run
        self._chunk = chunk
        self._held: list[tuple[str, int, str]] = []
        self._counts = ResultCounts(0)

    async def write(self, batch: Batch, results: Results) -> None:
        """Keep the results until the commit."""
        assert isinstance(results.values, JsonRecords)
        for at, text in enumerate(results.values.texts):
            error = results.errors.get(at)
            value = json.dumps({"error": error.code}) if error else text.decode()
            self._held.append((self._run, batch.first + at, value))
        self._counts += results.counts

    async def commit(self) -> ChunkCommit:
        """Insert chunk and predictions in one transaction, unless the chunk exists."""
        try:
            with self._connection:
                values = (self._run, self._chunk.index, self._counts.completed, self._counts.failed)
                self._connection.execute("insert into chunk values (?, ?, ?, ?)", values)
                self._connection.executemany("insert into prediction values (?, ?, ?)", self._held)
        except sqlite3.IntegrityError:
            query = "select completed, failed from chunk where run = ? and number = ?"
            row = self._connection.execute(query, (self._run, self._chunk.index)).fetchone()
            return ChunkCommit(ResultCounts(*row), won=False)
        return ChunkCommit(self._counts)


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `sqlite` under `input`."""
    path, table = _text(spec, "path", side="input"), _text(spec, "table", side="input")
    if not table.isidentifier():
        raise ContractError(f"input.sqlite.table: must be a name, got {table!r}")
    with _connected(context.input_dir / path) as connection:
        try:
            yield SqliteSource(connection, table, context.limits)
        except sqlite3.Error as error:
            raise InputError(f"input.sqlite: {error}") from error


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `sqlite` under `output`."""
    path = context.output_dir / _text(spec, "path", side="output")
    with _connected(path) as connection:
        yield SqliteOutput(connection, path, context.contract.run_id or context.contract.job_id)


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, check_same_thread=False)  # used by one thread at a time
    try:
        yield connection
    finally:
        connection.close()


def _text(spec: Mapping[str, Json], key: str, *, side: str) -> str:
    value = spec.get(key)
    if not isinstance(value, str) or not value:
        raise ContractError(f"{side}.sqlite.{key}: required")
    return value

"""The output store `sql`: results are rows of a table, and chunks and the run are committed by rows with a unique key.

Three tables in one schema, created by the first run that needs them:

    <table>           run, index, custom_id, prediction, error, and input if columns are copied: one row per record
    inferrun_runs     one row per run: its plan, and its manifest once it is committed, or that it was aborted
    inferrun_chunks   one row per committed chunk

A chunk is committed in one transaction: the row of the chunk, which only one attempt can insert, and the results, by COPY. So any
number of Pods may execute the same run, and each record is stored once. Results are spooled to the Pod's disk before.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeVar

import psycopg
from psycopg import sql
from pydantic import ValidationError

from inferrun.formats.copy_text import CopyLines
from inferrun.manifest import Manifest, ManifestPart
from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    ChunkCommit,
    CommittedRun,
    Counts,
    Delivery,
    EarlierResults,
    InputPlan,
    JsonRecords,
    OutputError,
    OutputStore,
    RecordError,
    Results,
    RetriedRun,
    StorageObject,
    StoreContext,
    failed,
)
from inferrun.plugins.storage import read_spec
from runner.stores.run_folder.documents import (
    ChunkDocument,
    RunDocument,
    chunk_document_of,
    document_of,
    manifest_of,
    run_id_of,
)
from runner.stores.run_folder.earlier import EarlierRun, unusable
from runner.stores.run_folder.spool import PartDraft, Spool, SpooledChunk
from runner.stores.run_folder.store import Aborted
from runner.stores.sql.database import Connection, Database, open_database
from runner.stores.sql.spec import SqlOutputSpec

T = TypeVar("T")

_PIECE: Final = 1 << 20

_TABLES: Final = {
    "runs": "(run text primary key, job text not null, plan text, manifest text, aborted boolean not null default false)",
    "chunks": "(run text, chunk integer, attempt text not null, document text not null, primary key (run, chunk))",
    "table": "(run text, index bigint, custom_id text, prediction json, error json, primary key (run, index))",
}


class SqlOutput:
    """The rows of one run."""

    delivery: Delivery = "ExactlyOnce"
    commits_chunks = True
    stores_copied: Literal[True] = True

    def __init__(self, database: Database, spec: SqlOutputSpec, context: StoreContext) -> None:
        self._database = database
        self._contract = context.contract
        self._run = run_id_of(context.contract)
        self._copies_columns = context.columns.copies_any
        self._location = f"{database.location}/{spec.table}"
        self._spool = Spool(
            context, foreign=f"output.sql: a row of {self._location} was not written by this runner; remove it"
        )
        self._names = spec.tables
        self._plan: InputPlan | None = None

    async def open(self) -> Checkpoint:
        """Create the tables, and read what is committed."""
        return await self._transact(self._read_checkpoint)

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt did."""
        self._plan = await self._transact(lambda connection: self._store_plan(connection, plan))
        return self._plan

    def writer(self, chunk: Chunk) -> SpooledChunk:
        """Return the writer of a chunk."""
        # Errors are rows of the same table.
        return SpooledChunk(self._spool, chunk, lambda out, _: CopyLines(self._run, out), self._commit_chunk)

    async def finish(self, counts: Counts) -> CommittedRun:
        """Store the manifest. If the call is cancelled, the transaction that is under way decides."""
        commit = asyncio.ensure_future(self._transact(lambda connection: self._store_manifest(connection, counts)))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            return await commit

    async def find_commit(self) -> CommittedRun | None:
        """Read the manifest."""
        return await self._transact(self._find_commit)

    async def abort(self) -> CommittedRun | None:
        """Mark the run as aborted, unless it is committed."""
        return await self._transact(self._store_abort)

    async def probe(self) -> str:
        """Insert rows as the run will, and roll everything back, also the tables if they did not exist."""
        await self._transact(self._insert_and_roll_back)
        return f"output.sql {self._location}"

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Read the rows of an ended run in the same table."""
        return await self._transact(lambda connection: self._read_earlier(connection, run))

    def close(self) -> None:
        """Delete the spooled files."""
        self._spool.close()

    async def _transact(self, work: Callable[[Connection], T]) -> T:
        return await self._spool.on_thread(lambda: self._database.transact(work))

    def _commit_chunk(self, draft: PartDraft) -> ChunkCommit:
        document = chunk_document_of(draft, name=str(draft.chunk.index), suffix="", attempt=self._spool.attempt)
        return self._database.transact(lambda connection: self._insert_chunk(connection, document, draft.results.path))

    def _sql(self, text: str) -> sql.Composed:
        return sql.SQL(text).format(**self._names)

    def _read_checkpoint(self, connection: Connection) -> Checkpoint:
        self._create_tables(connection)
        if run := self._read_manifest(connection):
            return Checkpoint(committed_run=run)
        stored = self._read_plan(connection)
        if stored is None:
            return Checkpoint()
        documents = self._read_chunks(connection)
        return Checkpoint(plan=stored.plan(), committed={one.chunk: one.commit(won=False) for one in documents})

    def _insert_and_roll_back(self, connection: Connection) -> None:
        self._create_tables(connection)
        run = f"probe-{self._spool.attempt}"
        connection.execute(self._sql("insert into {runs} (run, job) values (%s, %s)"), [run, self._contract.job_name])
        connection.execute(
            self._sql("insert into {chunks} (run, chunk, attempt, document) values (%s, 0, '', '')"), [run]
        )
        lines = io.BytesIO()
        writer = CopyLines(run, lines)
        copied = JsonRecords([b'"probe":true']) if self._copies_columns else None
        one = JsonRecords([b"1"])
        writer.write(Batch(first=0, records=one, ids=["probe"], copied=copied), Results(one))
        writer.write(Batch(first=1, records=one, copied=copied), failed(RecordError("probe", "")))
        lines.seek(0)
        self._copy(connection, lines)
        connection.execute(self._sql("update {runs} set manifest = %s where run = %s"), ["", run])
        raise psycopg.Rollback

    def _create_tables(self, connection: Connection) -> None:
        """Create the tables that do not exist. Only then is the right to create tables needed."""
        connection.execute("select pg_advisory_xact_lock(hashtext('inferrun tables'))")
        for name, columns in _TABLES.items():
            if not self._exists(connection, name):
                connection.execute(self._sql(f"create table {{{name}}} {columns}"))
        if self._copies_columns:  # a table of runs that copied no columns has no place for them
            found = (
                "select 1 from pg_attribute where attrelid = to_regclass(%s) and attname = 'input' and not attisdropped"
            )
            if connection.execute(found, [self._names["table"].as_string(connection)]).fetchone() is None:
                connection.execute(self._sql("alter table {table} add column input json"))

    def _exists(self, connection: Connection, name: str) -> bool:
        found = connection.execute("select to_regclass(%s)", [self._names[name].as_string(connection)]).fetchone()
        return found is not None and found[0] is not None

    def _read_plan(self, connection: Connection) -> RunDocument | None:
        row = connection.execute(self._sql("select plan from {runs} where run = %s"), [self._run]).fetchone()
        return RunDocument.model_validate_json(str(row[0])) if row and row[0] else None

    def _read_chunks(self, connection: Connection) -> list[ChunkDocument]:
        rows = connection.execute(self._sql("select document from {chunks} where run = %s order by chunk"), [self._run])
        return [ChunkDocument.model_validate_json(str(row[0])) for row in rows]

    def _read_manifest(self, connection: Connection, *, lock: str = "") -> CommittedRun | None:
        text = f"select manifest, aborted from {{runs}} where run = %s {lock}"  # noqa: S608  a constant of this module
        row = connection.execute(self._sql(text), [self._run]).fetchone()
        if row and row[1]:
            raise Aborted("output.sql", self._location)
        return self._committed(str(row[0])) if row and row[0] else None

    def _find_commit(self, connection: Connection) -> CommittedRun | None:
        if not self._exists(connection, "runs"):
            return None
        with suppress(Aborted):
            return self._read_manifest(connection)
        return None

    def _committed(self, manifest: str) -> CommittedRun:
        place, content = f"{self._location.rpartition('/')[0]}/inferrun_runs", manifest.encode()
        return Manifest.model_validate_json(content).committed_run(
            location=self._location, manifest=place, content=content
        )

    def _store_plan(self, connection: Connection, plan: InputPlan) -> InputPlan:
        document = document_of(plan, self._contract)
        connection.execute(
            self._sql("insert into {runs} (run, job, plan) values (%s, %s, %s) on conflict do nothing"),
            [self._run, self._contract.job_name, document.text().decode()],
        )
        self._read_manifest(connection)
        stored = self._read_plan(connection)
        if stored is None:
            raise OutputError(
                f"output.sql: the row of the run in {self._location} was deleted; do not modify it during a run"
            )
        return stored.plan()

    def _insert_chunk(self, connection: Connection, document: ChunkDocument, path: Path) -> ChunkCommit:
        self._read_manifest(connection, lock="for share")
        inserted = connection.execute(
            self._sql(
                "insert into {chunks} (run, chunk, attempt, document) values (%s, %s, %s, %s) on conflict do nothing"
            ),
            [self._run, document.chunk, self._spool.attempt, document.text().decode()],
        )
        if inserted.rowcount == 1:
            with path.open("rb") as lines:
                self._copy(connection, lines)
            return document.commit(won=True)
        row = connection.execute(
            self._sql("select document, attempt from {chunks} where run = %s and chunk = %s"),
            [self._run, document.chunk],
        ).fetchone()
        if row is None:
            raise OutputError(
                f"output.sql: the row of a chunk in {self._location} was deleted; do not modify it during a run"
            )
        return ChunkDocument.model_validate_json(str(row[0])).commit(won=row[1] == self._spool.attempt)

    def _copy(self, connection: Connection, lines: BinaryIO) -> None:
        columns = "run, index, custom_id, prediction, error" + (", input" if self._copies_columns else "")
        rows = self._sql(f"copy {{table}} ({columns}) from stdin")
        with connection.cursor().copy(rows) as copy:
            while piece := lines.read(_PIECE):
                copy.write(piece)

    def _store_manifest(self, connection: Connection, counts: Counts) -> CommittedRun:
        if self._plan is None:
            raise AssertionError("finish was called before begin")
        if run := self._read_manifest(connection, lock="for update"):
            return run
        documents = sorted(self._read_chunks(connection), key=lambda one: one.chunk)
        manifest = manifest_of(self._contract, self._plan, documents, counts)
        stored = sum(part.records for part in manifest.parts)
        if stored != counts.completed + counts.failed:
            raise OutputError(
                f"output.sql: {self._location} contains {stored} results of the run, expected {counts.total}; the run was not "
                "committed; do not modify its rows during a run"
            )
        text = manifest.text().decode()
        connection.execute(self._sql("update {runs} set manifest = %s where run = %s"), [text, self._run])
        return self._committed(text)

    def _read_earlier(self, connection: Connection, run: RetriedRun) -> EarlierResults | None:
        if not self._exists(connection, "runs"):
            return None
        row = connection.execute(self._sql("select plan, manifest from {runs} where run = %s"), [run.run_id]).fetchone()
        if run.manifest_sha256 and (row is None or row[1] is None):
            raise unusable(f"{self._location} has no manifest of that run, although it has succeeded")
        if row is None or not row[0]:
            return None
        chunks = connection.execute(self._sql("select document from {chunks} where run = %s"), [run.run_id])
        try:
            begun = RunDocument.model_validate_json(str(row[0]))
            documents = [ChunkDocument.model_validate_json(str(one[0])) for one in chunks]
        except ValidationError as error:
            raise unusable("a row of that run was not written by this runner") from error

        def predictions_in(part: ManifestPart, _: Chunk) -> Mapping[int, bytes]:
            text = (
                "select index, prediction::text from {table} "
                "where run = %s and index between %s and %s and prediction is not null"
            )
            place = [run.run_id, part.first, part.first + part.records - 1]
            rows = self._database.transact(lambda connection: connection.execute(self._sql(text), place).fetchall())
            return {int(str(index)): str(prediction).encode() for index, prediction in rows}

        return EarlierRun(begun.plan(), [one.part for one in documents], predictions_in)

    def _store_abort(self, connection: Connection) -> CommittedRun | None:
        self._create_tables(connection)
        connection.execute(
            self._sql("insert into {runs} (run, job) values (%s, %s) on conflict do nothing"),
            [self._run, self._contract.job_name],
        )
        try:
            run = self._read_manifest(connection, lock="for update")
        except Aborted:
            return None
        if run is None:
            connection.execute(self._sql("update {runs} set aborted = true where run = %s"), [self._run])
        return run


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `sql` under `output`."""
    wanted = read_spec(spec, SqlOutputSpec, field="output.sql")
    database = await open_database(context, secret=wanted.credentials_ref.name, side="output", error=OutputError)
    with closing(SqlOutput(database, wanted, context)) as output:
        yield output

"""The output store `sql`: results are rows of a table, and chunks and the run are committed by rows
with a unique key.

Three tables in one schema, created by the first run that needs them:

    <table>           run, index, and the columns of the results with their types: one row per record
    inferrun_runs     one row per run: its plan, and its manifest once it is committed, or that it was aborted
    inferrun_chunks   one row per committed chunk

A chunk is committed in one transaction: the row of the chunk, which only one attempt can insert,
and the results. So any number of Pods may execute the same run, and each record is stored once.
Results are spooled to the Pod's disk before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from typing import Final, TypeVar

from pydantic import ValidationError

from inferrun.formats.copy_text import TableRows, table_names
from inferrun.manifest import Manifest, ManifestPart
from inferrun.plugins import (
    ID_COLUMN,
    Checkpoint,
    Chunk,
    ChunkCommit,
    CommittedRun,
    Counts,
    Delivery,
    EarlierResults,
    InputPlan,
    OutputError,
    OutputStore,
    ResultOptions,
    RetriedRun,
    StorageObject,
    StoreAbilities,
    StoreContext,
    StoredResult,
)
from inferrun.plugins.storage import read_spec
from inferrun.stores import SqlStorage
from inferrun_runner.stores.run_folder.documents import (
    ChunkDocument,
    RunDocument,
    chunk_document_of,
    columns_of,
    document_of,
    manifest_of,
    run_id_of,
)
from inferrun_runner.stores.run_folder.earlier import EarlierRun, unusable
from inferrun_runner.stores.run_folder.spool import PartDraft, Spool, SpooledChunk
from inferrun_runner.stores.run_folder.store import Aborted
from inferrun_runner.stores.sql.database import Database, Transaction, open_database
from inferrun_runner.stores.sql.table import ResultTable, found_columns

T = TypeVar("T")

_TABLES: Final = {
    "runs": "(run text primary key, job text not null, plan text, manifest text, aborted boolean not null default false)",
    "chunks": "(run text, chunk integer, attempt text not null, document text not null, primary key (run, chunk))",
}


class SqlOutput:
    """The rows of one run."""

    delivery: Delivery = "ExactlyOnce"

    def __init__(self, database: Database, spec: SqlStorage, context: StoreContext) -> None:
        self._database = database
        self._contract = context.contract
        self._run = run_id_of(context.contract)
        self.abilities = StoreAbilities(
            stores_copied=True,
            typed=ResultOptions("output.sql", spec.types, spec.flatten),
            find_commit=self.find_commit,
            abort=self.abort,
            probe=self.probe,
            earlier_results=self.earlier_results,
        )
        self._location = f"{database.location}/{spec.table}"
        self._spool = Spool(
            context,
            foreign=f"output.sql: a row of {self._location} was not written by this runner; remove it",
        )
        self._names = table_names(spec.table)
        self._plan: InputPlan | None = None
        self._table: ResultTable | None = None

    async def open(self) -> Checkpoint:
        """Create the tables, and read what is committed."""
        return await self._transact(self._read_checkpoint)

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt did, and create the table, or compare its columns
        with those of the results."""
        stored, self._table = await self._transact(
            lambda transaction: self._store_plan(transaction, plan)
        )
        self._plan = stored
        await self._transact(self._check_table, is_kept=False)
        return stored

    def writer(self, chunk: Chunk) -> SpooledChunk:
        """Return the writer of a chunk."""
        return SpooledChunk(self._spool, chunk, self._begun.writer, self._commit_chunk)

    async def finish(self, counts: Counts) -> CommittedRun:
        """Store the manifest. If the call is cancelled, the transaction that is under way
        decides."""
        commit = asyncio.ensure_future(
            self._transact(lambda transaction: self._store_manifest(transaction, counts))
        )
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
        """Insert rows as the run will, and roll everything back, also the tables if they did not
        exist."""
        await self._transact(self._insert_rows, is_kept=False)
        return f"output.sql {self._location}"

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Read the rows of an ended run in the same table."""
        return await self._transact(lambda transaction: self._read_earlier(transaction, run))

    def close(self) -> None:
        """Delete the spooled files."""
        self._spool.close()

    async def _transact(self, work: Callable[[Transaction], T], *, is_kept: bool = True) -> T:
        return await self._spool.on_thread(lambda: self._database.transact(work, is_kept=is_kept))

    @property
    def _begun(self) -> ResultTable:
        if self._table is None:
            raise AssertionError("called before begin")
        return self._table

    def _commit_chunk(self, draft: PartDraft) -> ChunkCommit:
        return self._database.transact(lambda transaction: self._insert_chunk(transaction, draft))

    def _rows(
        self, transaction: Transaction, text: str, *values: str | int
    ) -> list[tuple[object, ...]]:
        return transaction.rows(text.format(**self._names), *values)

    def _read_checkpoint(self, transaction: Transaction) -> Checkpoint:
        self._create_tables(transaction)
        if run := self._read_manifest(transaction):
            return Checkpoint(committed_run=run)
        stored = self._read_plan(transaction)
        if stored is None:
            return Checkpoint()
        documents = self._read_chunks(transaction)
        return Checkpoint(
            plan=stored.plan(), committed={one.chunk: one.commit(won=False) for one in documents}
        )

    def _insert_rows(self, transaction: Transaction) -> None:
        """Insert a row into each table, as a run does."""
        self._create_tables(transaction)
        if not self._exists(transaction, "table"):
            self._rows(
                transaction,
                "create table {table} (run text, index bigint, primary key (run, index))",
            )
        run = f"probe-{self._spool.attempt}"
        self._rows(
            transaction,
            "insert into {runs} (run, job) values ($1, $2)",
            run,
            self._contract.job_name,
        )
        self._rows(
            transaction,
            "insert into {chunks} (run, chunk, attempt, document) values ($1, 0, '', '')",
            run,
        )
        self._rows(transaction, "insert into {table} (run, index) values ($1, 0)", run)
        self._rows(transaction, "update {runs} set manifest = '' where run = $1", run)

    def _create_tables(self, transaction: Transaction) -> None:
        """Create the tables that do not exist. Only then is the right to create tables needed."""
        transaction.rows("select pg_advisory_xact_lock(hashtext('inferrun tables'))::text")
        for name, columns in _TABLES.items():
            if not self._exists(transaction, name):
                transaction.rows(f"create table {self._names[name]} {columns}")

    def _exists(self, transaction: Transaction, name: str) -> bool:
        return bool(found_columns(transaction, self._names[name]))

    def _read_plan(self, transaction: Transaction) -> RunDocument | None:
        rows = self._rows(transaction, "select plan from {runs} where run = $1", self._run)
        return RunDocument.model_validate_json(str(rows[0][0])) if rows and rows[0][0] else None

    def _read_chunks(self, transaction: Transaction) -> list[ChunkDocument]:
        rows = self._rows(
            transaction, "select document from {chunks} where run = $1 order by chunk", self._run
        )
        return [ChunkDocument.model_validate_json(str(row[0])) for row in rows]

    def _read_manifest(self, transaction: Transaction, *, lock: str = "") -> CommittedRun | None:
        text = "select manifest, aborted from {runs} where run = $1"
        for manifest, is_aborted in self._rows(transaction, f"{text} {lock}", self._run):
            if is_aborted:
                raise Aborted("output.sql", self._location)
            return self._committed(str(manifest)) if manifest else None
        return None

    def _find_commit(self, transaction: Transaction) -> CommittedRun | None:
        if not self._exists(transaction, "runs"):
            return None
        with suppress(Aborted):
            return self._read_manifest(transaction)
        return None

    def _committed(self, manifest: str) -> CommittedRun:
        place, content = f"{self._location.rpartition('/')[0]}/inferrun_runs", manifest.encode()
        return Manifest.model_validate_json(content).committed_run(
            location=self._location, manifest=place, content=content
        )

    def _store_plan(
        self, transaction: Transaction, plan: InputPlan
    ) -> tuple[InputPlan, ResultTable]:
        self._create_tables(transaction)
        document = document_of(plan, self._contract).text().decode()
        self._insert_run(transaction, document)
        self._read_manifest(transaction)
        stored = self._read_plan(transaction)
        if stored is None:
            raise self._deleted("run")
        begun = stored.plan()
        table = ResultTable(self._names["table"], begun, location=self._location)
        table.create(transaction)
        return begun, table

    def _check_table(self, transaction: Transaction) -> None:
        """Find what the first insertion would find, before requests are paid for."""
        if self._plan is not None and self._plan.chunks:
            self._begun.check(transaction, self._run, index=self._plan.chunks[0].first)

    def _insert_run(self, transaction: Transaction, plan: str = "") -> None:
        text = "insert into {runs} (run, job, plan) values ($1, $2, nullif($3, '')) on conflict do nothing"
        self._rows(transaction, text, self._run, self._contract.job_name, plan)

    def _deleted(self, what: str) -> OutputError:
        text = f"output.sql: the row of a {what} in {self._location} was deleted; do not modify it during a run"
        return OutputError(text)

    def _insert_chunk(self, transaction: Transaction, draft: PartDraft) -> ChunkCommit:
        self._read_manifest(transaction, lock="for share")
        chunk, attempt = draft.chunk.index, self._spool.attempt
        digest, size = self._begun.receive(transaction, draft.results.path)
        document = chunk_document_of(draft, name=str(chunk), suffix="", attempt=attempt)
        document = document.model_copy(
            update={"part": document.part.model_copy(update={"sha256": digest, "bytes": size})}
        )
        text = "insert into {chunks} (run, chunk, attempt, document) values ($1, $2, $3, $4) on conflict do nothing returning 1"
        if self._rows(transaction, text, self._run, chunk, attempt, document.text().decode()):
            self._begun.insert(transaction, self._run, records=document.part.records)
            return document.commit(won=True)
        text = "select document, attempt from {chunks} where run = $1 and chunk = $2"
        for stored, winner in self._rows(transaction, text, self._run, chunk):
            return ChunkDocument.model_validate_json(str(stored)).commit(won=winner == attempt)
        raise self._deleted("chunk")

    def _store_manifest(self, transaction: Transaction, counts: Counts) -> CommittedRun:
        if self._plan is None:
            raise AssertionError("called before begin")
        if run := self._read_manifest(transaction, lock="for update"):
            return run
        documents = sorted(self._read_chunks(transaction), key=lambda one: one.chunk)
        manifest = manifest_of(self._contract, self._plan, documents, counts)
        stored = sum(part.records for part in manifest.parts)
        if stored != counts.completed + counts.failed:
            raise OutputError(
                f"output.sql: {self._location} contains {stored} results of the run, expected {counts.total}; the run was not "
                "committed; do not modify its rows during a run"
            )
        text = manifest.text().decode()
        self._rows(transaction, "update {runs} set manifest = $1 where run = $2", text, self._run)
        return self._committed(text)

    def _read_earlier(self, transaction: Transaction, run: RetriedRun) -> EarlierResults | None:
        if not self._exists(transaction, "runs"):
            return None
        rows = self._rows(
            transaction, "select plan, manifest from {runs} where run = $1", run.run_id
        )
        row = rows[0] if rows else None
        if run.manifest_sha256 and (row is None or row[1] is None):
            raise unusable(
                f"{self._location} has no manifest of that run, although it has succeeded"
            )
        if row is None or not row[0]:
            return None
        chunks = self._rows(transaction, "select document from {chunks} where run = $1", run.run_id)
        try:
            begun = RunDocument.model_validate_json(str(row[0]))
            documents = [ChunkDocument.model_validate_json(str(one[0])) for one in chunks]
        except ValidationError as error:
            raise unusable("a row of that run was not written by this runner") from error

        table = TableRows({one.name: one.role for one in columns_of(begun.plan())})

        key = f"{ID_COLUMN}::text" if ID_COLUMN in table.names else "null"
        found = f"index, {key}, case when error is null then {table.prediction} end"

        def read_rows(_: ManifestPart, first: int, stop: int) -> Iterator[StoredResult]:
            text = f"select {found} from {{table}} where run = $1 and index >= $2 and index < $3"  # noqa: S608  names
            for index, custom_id, prediction in self._database.read(
                lambda transaction: self._rows(transaction, text, run.run_id, first, stop)
            ):
                yield StoredResult(
                    int(str(index)),
                    None if custom_id is None else str(custom_id),
                    prediction=b"" if prediction is None else str(prediction).encode(),
                )

        return EarlierRun(begun.plan(), [one.part for one in documents], read_rows)

    def _store_abort(self, transaction: Transaction) -> CommittedRun | None:
        self._create_tables(transaction)
        self._insert_run(transaction)
        try:
            run = self._read_manifest(transaction, lock="for update")
        except Aborted:
            return None
        if run is None:
            self._rows(transaction, "update {runs} set aborted = true where run = $1", self._run)
        return run


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `sql` under `output`."""
    wanted = read_spec(spec, SqlStorage, field="output.sql")
    database = await open_database(
        context, secret=wanted.credentials_ref.name, side="output", error=OutputError
    )
    with closing(SqlOutput(database, wanted, context)) as output:
        yield output

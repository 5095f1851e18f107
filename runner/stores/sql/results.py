"""The results of an ended run in a table. A part is spooled as JSON lines: no transaction lasts as long as the model takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from psycopg import sql

from inferrun.contract import InputRun
from inferrun.formats.json_text import error_of
from inferrun.formats.jsonl.results import error_line, result_line
from inferrun.manifest import ManifestPart
from inferrun.plugins import InputError, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.input_spool import InputSpool
from runner.stores.run_folder.results import SpooledPart, StoredResults, changed, readable_format
from runner.stores.sql.database import Connection, Database, open_database
from runner.stores.sql.spec import SqlOutputSpec


class TableResults:
    """The rows of a run."""

    def __init__(self, database: Database, spec: SqlOutputSpec, run: InputRun, context: StoreContext) -> None:
        self._database = database
        self._tables = spec.tables
        self._run = run
        self._limit = context.limits.spool_bytes
        self.location = f"{database.location}/{spec.table}"
        self.record_format = readable_format(context, "jsonl")

    def read_manifest(self) -> bytes | None:
        """Read the row of the run."""
        query = sql.SQL("select manifest from {runs} where run = %s").format(**self._tables)
        row = self._database.transact(lambda connection: connection.execute(query, [self._run.run_id]).fetchone())
        return str(row[0]).encode() if row and row[0] else None

    def spool(self, part: ManifestPart, folder: Path) -> SpooledPart:
        """Copy the rows of a part."""
        spool = InputSpool(folder / "results", limit=self._limit, what=f"input.run: a part of {self.location} has")
        completed, failed = self._database.transact(lambda connection: self._copy(connection, part, spool))
        if (completed, failed) != (part.records - part.failed, part.failed):
            first, last = part.first, part.first + part.records - 1
            raise changed(
                f"records {first} to {last} of the run in {self.location} have {completed} predictions and {failed} errors instead "
                f"of {part.records - part.failed} and {part.failed}; rows were changed or deleted"
            )
        return SpooledPart(spool.file)

    def _copy(self, connection: Connection, part: ManifestPart, spool: InputSpool) -> tuple[int, int]:
        """Write the rows as lines, and return the numbers of predictions and errors."""
        described = connection.execute(sql.SQL("select * from {table} limit 0").format(**self._tables)).description
        has_columns = any(column.name == "input" for column in described or ())
        query = sql.SQL(
            "copy (select index, custom_id, prediction::text, error::text, {copied} from {table} "
            "where run = {run} and index between {first} and {last} order by index) to stdout"
        ).format(
            copied=sql.SQL("input::text" if has_columns else "null"),
            run=self._run.run_id,
            first=part.first,
            last=part.first + part.records - 1,
            **self._tables,
        )
        completed = failed = 0
        with spool.opened(), connection.cursor().copy(query) as rows:
            for index, custom_id, prediction, error, columns in rows.rows():
                copied = columns.encode()[1:-1] if columns else b""
                if error is None:
                    spool.write(result_line(int(index), custom_id, copied, prediction.encode()))
                    completed += 1
                else:
                    spool.write(error_line(int(index), custom_id, copied, error_of(orjson.loads(error))))
                    failed += 1
        return completed, failed


@asynccontextmanager
async def open_results(spec: StorageObject, run: InputRun, context: StoreContext) -> AsyncIterator[StoredResults]:
    """Open what the label `sql` has stored."""
    wanted = read_spec(spec, SqlOutputSpec, field="inputRun.output.sql")
    database = await open_database(
        context,
        secret=wanted.credentials_ref.name,
        side="inputRun.output",
        error=InputError,
        mounted="input",
    )
    yield TableResults(database, wanted, run, context)

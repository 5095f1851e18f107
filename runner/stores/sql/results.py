"""The results of an ended run in a table. A part is spooled as JSON lines: no transaction lasts as long as the model takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from inferrun.contract import InputRun
from inferrun.formats.copy_text import TableRows
from inferrun.formats.json_text import error_of
from inferrun.formats.jsonl.results import error_line, result_line
from inferrun.manifest import Manifest, ManifestPart
from inferrun.plugins import InputError, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.input_spool import InputSpool
from runner.stores.run_folder.results import SpooledPart, StoredResults, changed, readable_format
from runner.stores.sql.database import Database, Transaction, open_database
from runner.stores.sql.spec import SqlOutputSpec


class TableResults:
    """The rows of a run."""

    def __init__(self, database: Database, spec: SqlOutputSpec, run: InputRun, context: StoreContext) -> None:
        self._database = database
        self._tables = spec.tables
        self._run = run.run_id
        self._limit = context.limits.spool_bytes
        self.location = f"{database.location}/{spec.table}"
        self.record_format = readable_format(context, "jsonl")

    def read_manifest(self) -> bytes | None:
        """Read the row of the run."""
        return self._database.read(self._manifest)

    def spool(self, part: ManifestPart, folder: Path) -> SpooledPart:
        """Copy the rows of a part."""
        spool = InputSpool(folder / "results", limit=self._limit, what=f"input.run: a part of {self.location} has")
        completed, failed = self._database.read(lambda transaction: self._copy(transaction, part, spool))
        if (completed, failed) != (part.records - part.failed, part.failed):
            first, last = part.first, part.first + part.records - 1
            raise changed(
                f"records {first} to {last} of the run in {self.location} have {completed} predictions and {failed} errors instead "
                f"of {part.records - part.failed} and {part.failed}; rows were changed or deleted"
            )
        return SpooledPart(spool.file)

    def _manifest(self, transaction: Transaction) -> bytes | None:
        rows = transaction.rows(f"select manifest from {self._tables['runs']} where run = $1", self._run)  # noqa: S608  a name
        return str(rows[0][0]).encode() if rows and rows[0][0] else None

    def _copy(self, transaction: Transaction, part: ManifestPart, spool: InputSpool) -> tuple[int, int]:
        """Write the rows as lines, and return the numbers of predictions and errors."""
        columns = Manifest.model_validate_json(self._manifest(transaction) or b"").columns or ()
        table = TableRows({one.name: one.role for one in columns})
        text = (
            f"select {table.lines('run')} from {self._tables['table']} "  # noqa: S608  names
            "where run = $1 and index between $2 and $3 order by index"
        )
        completed = failed = 0
        with spool.opened():
            for row in transaction.rows(text, self._run, part.first, part.first + part.records - 1):
                _, index, custom_id, prediction, error, *copied = row
                members = str(copied[0]).encode()[1:-1] if copied and copied[0] else b""
                name = None if custom_id is None else str(custom_id)
                if error is None:
                    spool.write(result_line(int(str(index)), name, members, str(prediction).encode()))
                    completed += 1
                else:
                    spool.write(error_line(int(str(index)), name, members, error_of(orjson.loads(str(error)))))
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

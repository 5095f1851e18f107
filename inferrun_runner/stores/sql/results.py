"""The results of an ended run in a table. A part is spooled as an Arrow table: no transaction lasts
as long as the model takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow
from pyarrow import ipc

from inferrun.contract import InputRun
from inferrun.formats.copy_text import TableRows, table_names
from inferrun.formats.result_schema import ERROR_TYPE
from inferrun.formats.typed_values import array_of_texts
from inferrun.manifest import Manifest, ManifestPart
from inferrun.plugins import ColumnSelection, InputError, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from inferrun.stores import SqlStorage
from inferrun_runner.stores.input_spool import InputSpool
from inferrun_runner.stores.run_folder.results import (
    SpooledPart,
    StoredResults,
    changed,
    readable_format,
)
from inferrun_runner.stores.sql.database import Database, Transaction, open_database
from inferrun_runner.stores.sql.rows import rows_of


class SqlResultTable:
    """The rows of a run."""

    def __init__(
        self, database: Database, spec: SqlStorage, run: InputRun, context: StoreContext
    ) -> None:
        self._database = database
        self._tables = table_names(spec.table)
        self._run = run.run_id
        self._limit = context.limits.spool_bytes
        self.location = f"{database.location}/{spec.table}"
        self.readable = readable_format(context, "arrow")

    def read_manifest(self) -> bytes | None:
        """Read the row of the run."""
        return self._database.read(self._manifest)

    def spool(self, part: ManifestPart, folder: Path) -> SpooledPart:
        """Copy the rows of a part."""
        spool = InputSpool(
            folder / "results", limit=self._limit, what=f"input.run: a part of {self.location} has"
        )
        completed, failed = self._database.read(
            lambda transaction: self._copy(transaction, part, spool)
        )
        if (completed, failed) != (part.records - part.failed, part.failed):
            first, last = part.first, part.first + part.records - 1
            raise changed(
                f"records {first} to {last} of the run in {self.location} have {completed} predictions and {failed} errors instead "
                f"of {part.records - part.failed} and {part.failed}; rows were changed or deleted"
            )
        return SpooledPart(spool.file)

    def _manifest(self, transaction: Transaction) -> bytes | None:
        rows = transaction.rows(
            f"select manifest from {self._tables['runs']} where run = $1",  # noqa: S608  a name
            self._run,
        )
        return str(rows[0][0]).encode() if rows and rows[0][0] else None

    def _copy(
        self, transaction: Transaction, part: ManifestPart, spool: InputSpool
    ) -> tuple[int, int]:
        """Write the rows as a table, and return the numbers of predictions and errors."""
        columns = Manifest.model_validate_json(self._manifest(transaction) or b"").columns or ()
        table = TableRows({one.name: one.role for one in columns})
        transaction.bind({"inferrun.run": self._run})
        query = (
            f"(select index, {table.results} from {self._tables['table']} where run = current_setting('inferrun.run') "  # noqa: S608
            f"and index between {part.first} and {part.first + part.records - 1}) as results"
        )
        rows = rows_of(transaction, query, ColumnSelection(takes_any=True))
        schema = pyarrow.schema(
            [one.with_type(ERROR_TYPE) if one.name == "error" else one for one in rows.schema]
        )
        count = failed = 0
        sink = pyarrow.BufferOutputStream()
        statement = f"select {rows.selected()} from {query} order by index"  # noqa: S608  names
        with transaction.batches(statement) as batches, ipc.new_file(sink, schema) as out:
            for batch in map(rows.received, batches):
                *values, faults = batch.columns
                if faults.null_count < len(faults):
                    raise changed(
                        f"rows in {self.location} have values that no run has written; they were changed"
                    )
                at = schema.get_field_index("error")
                texts = ["null" if one is None else one for one in values[at].storage.to_pylist()]
                values[at], _ = array_of_texts([text.encode() for text in texts], ERROR_TYPE)
                out.write_batch(pyarrow.RecordBatch.from_arrays(values, schema=schema))
                count, failed = count + len(batch), failed + len(batch) - values[at].null_count
        with spool.opened():
            spool.write(sink.getvalue().to_pybytes())
        return count - failed, failed


@asynccontextmanager
async def open_results(
    spec: StorageObject, run: InputRun, context: StoreContext
) -> AsyncIterator[StoredResults]:
    """Open what the label `sql` has stored."""
    wanted = read_spec(spec, SqlStorage, field="inputRun.output.sql")
    database = await open_database(
        context,
        secret=wanted.credentials_ref.name,
        side="inputRun.output",
        error=InputError,
        mounted="input",
    )
    yield SqlResultTable(database, wanted, run, context)

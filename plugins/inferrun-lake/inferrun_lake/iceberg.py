"""The label `iceberg`: an Iceberg table that runs append to, and read at a snapshot. Blocks, but
for the openers.

Each run is a snapshot of the table whose summary names the run, with its files if it is committed
and without any if it was aborted. A commit succeeds only on the snapshot that it was made for; so
whoever writes looks for the run in the snapshots that it writes on, and of a late Pod and a
verification only one can win. pyiceberg would repeat a commit on the next snapshot without looking:
that is switched off.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Final, cast

import pyarrow
from pyarrow import parquet
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
)
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.io.pyarrow import ArrowScan, pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import TimestampType, TimestamptzType

from inferrun.plugins import (
    InputError,
    OutputError,
    OutputStore,
    RunnerError,
    Source,
    StorageObject,
    StoreContext,
    StoredPart,
)
from inferrun.plugins.storage import read_spec
from inferrun_lake.output import Fields, RunTable, TableOutput, TableVerdict, table_errors
from inferrun_lake.snapshot import SnapshotFile, SnapshotSource, TableSnapshot
from inferrun_lake.spec import FOLDER, IcebergSpec, check_address, mounted_key

_RUN, _OUTCOME = "inferrun.run", "inferrun.outcome"

_NO_RETRIES: Final = {"commit.retry.num-retries": "0"}

_NEWEST: Final = 2
"""The format version of tables that are appended to."""

_READABLE: Final = (FileFormat.PARQUET, FileFormat.ORC)

_NONE: Final = "none"
"""The snapshot of a table that has none."""


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `iceberg` under `output`."""
    wanted = read_spec(spec, IcebergSpec, field="output.iceberg")
    options = await _options(wanted, context, side="output", error=OutputError)
    table = IcebergRunTable(wanted, options, run=context.contract.run_id or context.contract.job_id)
    async with context.services.output_store("s3")(wanted.stored_in(wanted), context) as store:
        yield TableOutput(store, table)


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `iceberg` under `input`."""
    wanted = read_spec(spec, IcebergSpec, field="input.iceberg")
    options = await _options(wanted, context, side="input", error=InputError)

    def load(version: str) -> TableSnapshot:
        with table_errors(InputError, "input.iceberg", options):
            try:
                table = load_catalog(wanted.catalog.name, **options).load_table(wanted.table)
            except NoSuchTableError as error:
                raise InputError(
                    f"input.iceberg.table: there is no table {wanted.table!r}"
                ) from error
            return _snapshot(table, context, version or _version(table, wanted.snapshot), options)

    yield SnapshotSource(load, context, label="input.iceberg", allow_empty=wanted.allow_empty)


class IcebergRunTable(RunTable[Table]):
    """The table of one run's results."""

    label = "output.iceberg"

    def __init__(self, spec: IcebergSpec, options: dict[str, str], *, run: str) -> None:
        self.options = options
        self._spec = spec
        self._run = run
        self._location = f"s3://{spec.bucket}/{spec.path}"

    def load(self) -> Table | None:
        """Ask the catalog."""
        try:
            return self._catalog.load_table(self._spec.table)
        except NoSuchTableError:
            return None

    def create(self, columns: pyarrow.Schema) -> Table:
        """Create the table in the folder of the results."""
        self._catalog.create_namespace_if_not_exists(self._spec.table.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(
            self._spec.table, columns, location=self._location
        )

    def found(self, table: Table) -> TableVerdict | None:
        """Look for a snapshot of the run."""
        for snapshot in table.snapshots():
            said = snapshot.summary.additional_properties if snapshot.summary else {}
            if said.get(_RUN) == self._run:
                return TableVerdict[said[_OUTCOME].upper()]
        return None

    def commit(self, table: Table, outcome: TableVerdict, parts: Sequence[StoredPart]) -> bool:
        """Append a snapshot."""
        files = [f"{self._location}/{FOLDER}/{part.name}" for part in parts]
        summary = {_RUN: self._run, _OUTCOME: outcome.name.lower()}
        table.metadata.properties.update(_NO_RETRIES)
        try:
            with table.transaction() as transaction:
                if files:
                    transaction.add_files(files, summary, check_duplicate_files=False)
                else:
                    with transaction.update_snapshot(summary).fast_append():
                        pass
        except (CommitFailedException, CommitStateUnknownException):
            return False
        return True

    def obstacle(self, table: Table) -> str:
        """Read the format version, which pyiceberg 0.12 would refuse at the commit, and the
        partitioning."""
        if table.format_version > _NEWEST:
            return f"the table has format version {table.format_version}, which is not implemented for output; use another one"
        return (
            ""
            if table.spec().is_unpartitioned()
            else "the table is partitioned; use one that is not"
        )

    def fields(self, table: Table, columns: pyarrow.Schema) -> tuple[Fields, Fields]:
        """Read the schema. Types are compared with the ids of their members, so those of the
        results get the table's."""
        stored: Fields = {one.name: (one.field_type, one.optional) for one in table.schema().fields}
        known = pyarrow.schema([one for one in columns if one.name in stored])
        names = table.schema().name_mapping
        given = {
            one.name: one.field_type for one in pyarrow_to_schema(known, name_mapping=names).fields
        }
        return stored, {one.name: (given.get(one.name), one.nullable) for one in columns}

    @cached_property
    def _catalog(self) -> Catalog:
        return load_catalog(self._spec.catalog.name, **self.options)


class _Int96Files(FileIO):
    """Files of a table; one of them, if it has times as INT96, with these in microseconds.

    Spark writes INT96 by default, and its files become those of a table with `add_files`,
    `snapshot` or `migrate`. pyiceberg 0.12 reads INT96 in nanoseconds, in which the year 9999
    becomes 1816.
    """

    def __init__(self, files: FileIO, data: str) -> None:
        super().__init__(files.properties)
        self._files = files
        self._data = data

    def new_input(self, location: str) -> InputFile:
        """Return a file to read."""
        file = self._files.new_input(location)
        return _Int96File(location, file) if location == self._data else file

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        return self._files.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self._files.delete(location)


class _Int96File(InputFile):
    """A file of Parquet, which is written again in memory if it has INT96."""

    def __init__(self, location: str, file: InputFile) -> None:
        super().__init__(location)
        self._file = file

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        """Whether the file exists."""
        return self._file.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002  the signature is pyiceberg's
        """Return what pyiceberg reads."""
        with parquet.ParquetFile(self._file.open(), coerce_int96_timestamp_unit="us") as found:
            columns = found.schema
            if all(columns.column(at).physical_type != "INT96" for at in range(len(columns))):
                return self._file.open(seekable)
            made = pyarrow.BufferOutputStream()
            parquet.write_table(found.read(), made)
        return cast("InputStream", pyarrow.BufferReader(made.getvalue()))


async def _options(
    spec: IcebergSpec, context: StoreContext, *, side: str, error: type[RunnerError]
) -> dict[str, str]:
    """Return the properties of the catalog, with what the mounted Secret has."""
    with mounted_key(spec, context, side=side, error=error) as (secret, (key, access, session)):
        uri = secret.value("catalogUri") or spec.catalog.uri
        if not uri:
            raise ValueError(
                f"Secret {secret.name!r} has no key catalogUri, and {side}.iceberg.catalog has no uri"
            )
        is_rest = uri.startswith(("http://", "https://"))
        given = {
            "type": "rest" if is_rest else "sql",
            "uri": uri,
            "warehouse": spec.catalog.warehouse,
            "token": secret.value("token"),
            "credential": secret.value("credential"),
            "s3.endpoint": spec.endpoint,
            "s3.region": spec.region,
            "s3.access-key-id": key,
            "s3.secret-access-key": access,
            "s3.session-token": session,
        }
    for name, url in (("catalog.uri", uri), ("endpoint", spec.endpoint)):
        await check_address(url, context, f"{side}.iceberg.{name}", error)
    return {name: value for name, value in given.items() if value}


def _version(table: Table, wanted: int | None) -> str:
    """Return a snapshot and a schema, such as `4/1`, as readers of Iceberg choose them.

    A snapshot that is asked for by its number is read with the schema of its time, and the current
    one with that of the table, which may be newer: a column that is renamed, dropped or added makes
    no snapshot.
    """
    if wanted is None:
        newest = table.current_snapshot()
        return f"{newest.snapshot_id if newest else _NONE}/{table.schema().schema_id}"
    found = table.snapshot_by_id(wanted)
    schema_id = found.schema_id if found else None
    return f"{wanted}/{table.schema().schema_id if schema_id is None else schema_id}"


def _snapshot(
    table: Table, context: StoreContext, version: str, options: Mapping[str, str]
) -> TableSnapshot:
    name = ".".join(table.name())
    snapshot, _, schema_id = version.partition("/")
    schema = table.schemas().get(int(schema_id))
    if schema is None or (snapshot != _NONE and table.snapshot_by_id(int(snapshot)) is None):
        text = f"input.iceberg: table {name} has no snapshot {snapshot}; it may have expired"
        raise InputError(text, is_retryable=False)
    all_columns = schema_to_pyarrow(schema, include_field_ids=False)
    columns = context.services.used_columns(all_columns, context.columns, name=name)
    projected = IcebergSchema(*(field for field in schema.fields if field.name in columns.names))
    found = [] if snapshot == _NONE else table.scan(snapshot_id=int(snapshot)).plan_files()
    tasks = sorted(found, key=lambda task: task.file.file_path)
    for task in tasks:
        if task.file.file_format not in _READABLE:
            text = f"{task.file.file_path} is {task.file.file_format.value}, and Parquet and ORC are read; rewrite its rows"
            raise InputError(f"input.iceberg: {text}", is_retryable=False)
    has_times = any(
        isinstance(kind, TimestampType | TimestamptzType)
        for kind in map(projected.find_type, projected.field_ids)
    )

    def file_of(task: FileScanTask) -> SnapshotFile:
        is_checked = has_times and task.file.file_format == FileFormat.PARQUET
        files = _Int96Files(table.io, task.file.file_path) if is_checked else table.io

        def batches() -> Iterator[pyarrow.RecordBatch]:
            with table_errors(InputError, f"input.iceberg: {task.file.file_path}", options):
                reading = ArrowScan(table.metadata, files, projected, AlwaysTrue())
                for batch in reading.to_record_batches([task]):
                    yield batch.select(columns.names).cast(columns)

        rows = (
            sum(len(batch) for batch in batches()) if task.delete_files else task.file.record_count
        )
        return SnapshotFile(task.file.file_path, rows, task.file.file_size_in_bytes, batches)

    return TableSnapshot(
        name,
        f"iceberg:{table.metadata.table_uuid}@{version}",
        columns,
        [file_of(task) for task in tasks],
    )

"""The label `iceberg`: an Iceberg table that runs append to, and read at a snapshot. Blocks, but for the openers.

Each run is a snapshot of the table whose summary names the run, with its files if it is committed and without any if it was
aborted. A commit succeeds only on the snapshot that it was made for; so whoever writes looks for the run in the snapshots that it
writes on, and of a late Pod and a verification only one can win. pyiceberg would repeat a commit on the next snapshot without
looking: that is switched off.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import pyarrow
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import NestedField

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
from inferrun_lake.output import Outcome, check_storable, run_of, table_output
from inferrun_lake.snapshot import Snapshot, SnapshotSource, TableFile
from inferrun_lake.spec import FOLDER, IcebergInputSpec, IcebergOutputSpec, IcebergSpec, access_key

_CONFLICTS: Final = 100
"""Commits of other writers after which an attempt gives up; each takes part of a second."""

_RUN: Final = "inferrun.run"
_OUTCOME: Final = "inferrun.outcome"
_OUTCOMES: Final = {"committed": Outcome.COMMITTED, "aborted": Outcome.ABORTED}

_NO_RETRIES: Final = {"commit.retry.num-retries": "0"}

_NONE: Final = "none"
"""The version of a table without snapshots."""


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `iceberg` under `output`."""
    wanted = read_spec(spec, IcebergOutputSpec, field="output.iceberg")
    options = await _options(wanted, context, side="output", error=OutputError)
    table = IcebergRunTable(wanted, options, run=run_of(context))
    async with table_output(table, "s3", wanted.stored_in(wanted), context) as store:
        yield store


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `iceberg` under `input`."""
    wanted = read_spec(spec, IcebergInputSpec, field="input.iceberg")
    options = await _options(wanted, context, side="input", error=InputError)

    def load(version: str) -> Snapshot:
        with _errors(InputError, "input.iceberg", options):
            try:
                table = load_catalog(wanted.catalog.name, **options).load_table(wanted.table)
            except NoSuchTableError as error:
                raise InputError(f"input.iceberg.table: there is no table {wanted.table!r}") from error
            newest = table.current_snapshot()
            chosen = version or str(wanted.snapshot or (newest.snapshot_id if newest else _NONE))
            if chosen != _NONE and table.snapshot_by_id(int(chosen)) is None:
                text = f"input.iceberg: table {wanted.table} has no snapshot {chosen}; it may have expired"
                raise InputError(text, is_retryable=False)
            return _snapshot(table, context, chosen, options)

    yield SnapshotSource(load, context, label="input.iceberg", allow_empty=wanted.allow_empty)


class IcebergRunTable:
    """The table of one run's results."""

    label = "output.iceberg"

    def __init__(self, spec: IcebergOutputSpec, options: Mapping[str, str], *, run: str) -> None:
        self._spec = spec
        self._options = options
        self._run = run
        self._opened: Catalog | None = None

    def outcome(self) -> Outcome | None:
        """Read the snapshots."""
        with _errors(OutputError, self.label, self._options):
            table = self._table()
            return None if table is None else self._found(table)

    def prepare(self, columns: pyarrow.Schema) -> None:
        """Create the table, or compare its columns."""
        name = self._spec.table
        check_storable(columns, self.label)
        plain = pyarrow.schema([field.remove_metadata() for field in columns])
        with _errors(OutputError, self.label, self._options):
            table = self._table()
            if table is None:
                self._catalog().create_namespace_if_not_exists(name.rpartition(".")[0])
                place = f"s3://{self._spec.bucket}/{self._spec.path}"
                table = self._catalog().create_table_if_not_exists(name, plain, location=place)
            if fault := _misfit(table, plain):
                raise OutputError(f"{self.label}: {fault}", is_retryable=False)

    def decide(self, outcome: Outcome, parts: Sequence[StoredPart] = ()) -> Outcome | None:
        """Append a snapshot."""
        place = f"s3://{self._spec.bucket}/{self._spec.path}/{FOLDER}"
        files = [f"{place}/{part.name}" for part in parts]
        summary = {_RUN: self._run, _OUTCOME: next(text for text, one in _OUTCOMES.items() if one == outcome)}
        for _ in range(_CONFLICTS):
            with _errors(OutputError, self.label, self._options):
                table = self._table()
                if table is None:
                    return None
                if (found := self._found(table)) is not None:
                    return found
                table.metadata.properties.update(_NO_RETRIES)
                try:
                    with table.transaction() as transaction:
                        if files:
                            transaction.add_files(files, summary, check_duplicate_files=False)
                        else:
                            with transaction.update_snapshot(summary).fast_append():
                                pass
                except (CommitFailedException, CommitStateUnknownException):
                    continue
                return outcome
        raise OutputError(f"{self.label}: other writers commit to the table all the time")

    def _catalog(self) -> Catalog:
        self._opened = self._opened or load_catalog(self._spec.catalog.name, **self._options)
        return self._opened

    def _table(self) -> Table | None:
        try:
            return self._catalog().load_table(self._spec.table)
        except NoSuchTableError:
            return None

    def _found(self, table: Table) -> Outcome | None:
        for snapshot in table.snapshots():
            said = snapshot.summary.additional_properties if snapshot.summary else {}
            if said.get(_RUN) == self._run:
                return _OUTCOMES.get(said.get(_OUTCOME, ""), Outcome.COMMITTED)
        return None


async def _options(spec: IcebergSpec, context: StoreContext, *, side: str, error: type[RunnerError]) -> dict[str, str]:
    """Return the properties of the catalog, with what the mounted Secret has."""
    with access_key(spec, context, side=side, label="iceberg", error=error) as (secret, (key, access, session)):
        uri = secret.value("catalogUri") or spec.catalog.uri
        if not uri:
            raise ValueError(f"Secret {secret.name!r} has no key catalogUri, and {side}.iceberg.catalog has no uri")
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
        try:
            await context.services.check_address(url)
        except OSError as refused:
            raise error(f"{side}.iceberg.{name}: {refused}", is_retryable=False) from refused
    return {name: value for name, value in given.items() if value}


def _snapshot(table: Table, context: StoreContext, version: str, options: Mapping[str, str]) -> Snapshot:
    name = ".".join(table.name())
    everything = table.scan(snapshot_id=None if version == _NONE else int(version))
    all_columns = schema_to_pyarrow(everything.projection(), include_field_ids=False)
    columns = context.services.used_columns(all_columns, context.columns, name=name)
    scan = everything.select(*columns.names)
    tasks = [] if version == _NONE else sorted(scan.plan_files(), key=lambda task: task.file.file_path)

    def file_of(task: FileScanTask) -> TableFile:
        def batches() -> Iterator[pyarrow.RecordBatch]:
            with _errors(InputError, f"input.iceberg: {task.file.file_path}", options):
                reading = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
                for batch in reading.to_record_batches([task]):
                    yield batch.select(columns.names).cast(columns)

        rows = sum(len(batch) for batch in batches()) if task.delete_files else task.file.record_count
        return TableFile(task.file.file_path, rows, task.file.file_size_in_bytes, batches)

    return Snapshot(name, f"iceberg:{table.metadata.table_uuid}", version, columns, [file_of(task) for task in tasks])


@contextmanager
def _errors(error: type[RunnerError], what: str, options: Mapping[str, str]) -> Iterator[None]:
    """The clients have errors of many kinds. Their texts are shown without what the Secret has."""
    try:
        yield
    except RunnerError:
        raise
    except Exception as failed:  # noqa: BLE001  those of the catalog, of SQLAlchemy, of pyarrow
        text = f"{type(failed).__name__}: {failed}"
        for name, value in options.items():
            if name not in {"type", "s3.region", "s3.endpoint"}:
                text = text.replace(value, "…")
        raise error(f"{what}: the table cannot be used: {' '.join(text.split())[:300]}") from None


def _misfit(table: Table, columns: pyarrow.Schema) -> str:
    """Return why files with these columns cannot be added to a table; empty if they can."""
    if not table.spec().is_unpartitioned():
        return "the table is partitioned; use one that is not"
    stored: dict[str, NestedField] = {field.name: field for field in table.schema().fields}
    for column in columns:
        if column.name not in stored:
            return f"the table has no column {column.name!r}; add it, or use another table"
        given = pyarrow_to_schema(pyarrow.schema([column]), name_mapping=table.schema().name_mapping).fields[0]
        if given.field_type != (kind := stored[column.name].field_type):
            return f"column {column.name!r} of the table is {kind}, that of the results {given.field_type}; set types.{column.name}"
    for name, one in stored.items():
        if one.required and (name not in columns.names or columns.field(name).nullable):
            return f"column {name!r} of the table must not be null, and the results may have none there"
    return ""

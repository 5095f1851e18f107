"""The label `delta`: a Delta table that runs append to, and read at a version. Blocks, but for the openers.

Each run is an application transaction of the table's log (`txn`): version 1 says that its rows are in the table, version 0 that it
was aborted. Delta lets no two transactions of one run commit on the same snapshot; so whoever writes looks the version up in the
snapshot that it writes on, and of a late Pod and a verification only one can win. Other runs commit at the same time.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import pyarrow
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import dataset

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
from inferrun_lake.snapshot import BATCH_ROWS, Snapshot, SnapshotSource, TableFile
from inferrun_lake.spec import FOLDER, DeltaInputSpec, DeltaOutputSpec, DeltaSpec, access_key

_CONFLICTS: Final = 100
"""Commits of other writers after which an attempt gives up; each takes part of a second."""

_FEATURES: Final = frozenset({"appendOnly", "timestampNtz", "deletionVectors"})
"""What a table may require of writers so that whole files can be added to it."""


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `delta` under `output`."""
    wanted = read_spec(spec, DeltaOutputSpec, field="output.delta")
    location, options = await _place(wanted, context, side="output", error=OutputError)
    table = DeltaRunTable(location, options, run=run_of(context))
    claim = {"claimName": wanted.claim_name} if wanted.claim_name else {}
    files = wanted.stored_in(wanted, **claim)
    async with table_output(table, "file" if claim else "s3", files, context) as store:
        yield store


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `delta` under `input`."""
    wanted = read_spec(spec, DeltaInputSpec, field="input.delta")
    location, options = await _place(wanted, context, side="input", error=InputError)

    def load(version: str) -> Snapshot:
        with _errors(InputError, "input.delta"):
            try:
                number = int(version) if version else wanted.version
                table = DeltaTable(location, version=number, storage_options=options)
            except TableNotFoundError as error:
                raise InputError(f"input.delta: there is no Delta table in {_shown(wanted)}") from error
            return _snapshot(table, context, _shown(wanted))

    yield SnapshotSource(load, context, label="input.delta", allow_empty=wanted.allow_empty)


class DeltaRunTable:
    """The table of one run's results."""

    label = "output.delta"

    def __init__(self, location: str, options: Mapping[str, str], *, run: str) -> None:
        self._location = location
        self._options = dict(options)
        self._app = f"inferrun-{run}"

    def outcome(self) -> Outcome | None:
        """Read the log."""
        with _errors(OutputError, self.label):
            table = self._table()
            return None if table is None else self._found(table)

    def prepare(self, columns: pyarrow.Schema) -> None:
        """Create the table, or compare its columns."""
        check_storable(columns, self.label)
        with _errors(OutputError, self.label):
            table = self._table()
            if table is None:
                schema = Schema.from_arrow(columns.remove_metadata())
                table = DeltaTable.create(self._location, schema, mode="ignore", storage_options=self._options)
            if fault := _misfit(table, columns):
                raise OutputError(f"output.delta: {fault}", is_retryable=False)

    def decide(self, outcome: Outcome, parts: Sequence[StoredPart] = ()) -> Outcome | None:
        """Write to the log."""
        actions: list[AddAction | RemoveAction] = [_action(part) for part in parts]
        properties = CommitProperties(app_transactions=[Transaction(self._app, outcome)], max_commit_retries=0)
        for _ in range(_CONFLICTS):
            with _errors(OutputError, self.label):
                table = self._table()
                if table is None:
                    return None
                if (found := self._found(table)) is not None:
                    return found
                try:
                    table.create_write_transaction(
                        actions, "append", schema=table.schema(), commit_properties=properties
                    )
                except CommitFailedError:
                    continue
                return outcome
        raise OutputError("output.delta: other writers commit to the table all the time")

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._location, storage_options=self._options)
        except TableNotFoundError:
            return None

    def _found(self, table: DeltaTable) -> Outcome | None:
        version = table.transaction_version(self._app)
        return None if version is None else Outcome(version)


async def _place(
    spec: DeltaSpec, context: StoreContext, *, side: str, error: type[RunnerError]
) -> tuple[str, dict[str, str]]:
    """Return where the table is, and the options of its S3 client: only the mounted access key, and conditional writes."""
    if spec.claim_name:
        root = context.output_dir if side == "output" else context.input_dir
        if not (root / spec.path).resolve().is_relative_to(root.resolve()):
            raise error(f"{side}.delta: path {spec.path!r} leads out of the claim", is_retryable=False)
        return str(root / spec.path), {}
    url = spec.endpoint or f"https://{spec.bucket}.s3.{spec.region}.amazonaws.com"
    try:
        await context.services.check_address(url)
    except OSError as refused:
        raise error(f"{side}.delta.endpoint: {refused}", is_retryable=False) from refused
    with access_key(spec, context, side=side, label="delta", error=error) as (_, (key, secret, token)):
        options = {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": spec.region,
            "AWS_CONDITIONAL_PUT": "etag",
        }
    if token:
        options["AWS_SESSION_TOKEN"] = token
    if spec.endpoint:
        options |= {"AWS_ENDPOINT_URL": spec.endpoint, "AWS_ALLOW_HTTP": str(url.startswith("http:")).lower()}
    return f"s3://{spec.bucket}/{spec.path}", options


def _shown(spec: DeltaSpec) -> str:
    return f"s3://{spec.bucket}/{spec.path}" if spec.bucket else f"{spec.claim_name}/{spec.path}"


def _snapshot(table: DeltaTable, context: StoreContext, location: str) -> Snapshot:
    found = table.to_pyarrow_dataset()
    sizes = {one["path"]: one["size_bytes"] for one in pyarrow.table(table.get_add_actions()).to_pylist()}
    columns = context.services.used_columns(found.schema, context.columns, name=location)
    reading = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)

    def file_of(fragment: dataset.Fragment) -> TableFile:
        def batches() -> Iterator[pyarrow.RecordBatch]:
            with _errors(InputError, f"input.delta: {fragment.path}"):
                scanned: Iterator[pyarrow.RecordBatch] = fragment.to_batches(
                    schema=found.schema,
                    columns=columns.names,
                    batch_size=BATCH_ROWS,
                    batch_readahead=1,
                    use_threads=False,
                    fragment_scan_options=reading,
                )
                yield from scanned

        return TableFile(fragment.path, fragment.count_rows(), sizes.get(fragment.path, 0), batches)

    files = sorted(found.get_fragments(), key=lambda one: str(one.path))
    return Snapshot(
        location,
        f"delta:{table.metadata().id}",
        str(table.version()),
        columns,
        [file_of(one) for one in files],
    )


@contextmanager
def _errors(error: type[RunnerError], what: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError, pyarrow.ArrowException) as failed:
        text = " ".join(str(failed).split())[:300]
        raise error(f"{what}: the table cannot be used: {text}") from failed


def _action(part: StoredPart) -> AddAction:
    return AddAction(
        path=f"{FOLDER}/{part.name}",
        size=part.bytes,
        partition_values={},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": part.records}),
    )


def _misfit(table: DeltaTable, columns: pyarrow.Schema) -> str:
    """Return why files with these columns cannot be added to a table; empty if they can."""
    protocol, metadata = table.protocol(), table.metadata()
    required = set(protocol.writer_features or ())
    if metadata.partition_columns:
        return f"the table is partitioned by {', '.join(metadata.partition_columns)}; use one that is not"
    if not required <= _FEATURES or (protocol.min_writer_version > 2 and not protocol.writer_features):
        return (
            f"the table requires {', '.join(sorted(required - _FEATURES)) or 'constraints'} of writers; use another one"
        )
    return _mismatch({one.name: one for one in table.schema().fields}, columns)


def _mismatch(stored: Mapping[str, Field], columns: pyarrow.Schema) -> str:
    """Return how the columns of a table differ from those of the results; empty if the results fit."""
    given = {field.name: field for field in Schema.from_arrow(columns.remove_metadata()).fields}
    for name, field in given.items():
        if name not in stored:
            return f"the table has no column {name!r}; add it, or use another table"
        if field.type != stored[name].type:
            return f"column {name!r} of the table is {stored[name].type}, that of the results {field.type}; set types.{name}"
    for name, field in stored.items():
        if not field.nullable and (name not in given or given[name].nullable):
            return f"column {name!r} of the table must not be null, and the results may have none there"
        if "delta.invariants" in field.metadata:
            return f"column {name!r} of the table has a constraint; use another table"
    return ""

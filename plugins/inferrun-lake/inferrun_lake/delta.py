"""The label `delta`: a Delta table that runs append to, and read at a version. Blocks, but for the
openers.

Each run is an application transaction of the table's log (`txn`): version 1 says that its rows are
in the table, version 0 that it was aborted. Delta lets no two transactions of one run commit on the
same snapshot; so whoever writes looks the version up in the snapshot that it writes on, and of a
late Pod and a verification only one can win. Other runs commit at the same time.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pyarrow
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

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
from inferrun_lake.delta_features import unappendable, unsupported
from inferrun_lake.delta_rows import delta_snapshot
from inferrun_lake.output import Fields, RunTable, TableOutput, TableVerdict, table_errors
from inferrun_lake.snapshot import SnapshotSource, TableSnapshot
from inferrun_lake.spec import FOLDER, DeltaSpec, check_address, mounted_key


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `delta` under `output`."""
    wanted = read_spec(spec, DeltaSpec, field="output.delta")
    location, options = await _place(wanted, context, side="output", error=OutputError)
    table = DeltaRunTable(location, options, run=context.contract.run_id or context.contract.job_id)
    claim = {"claimName": wanted.claim_name} if wanted.claim_name else {}
    async with context.services.output_store("file" if claim else "s3")(
        wanted.stored_in(wanted, **claim), context
    ) as store:
        yield TableOutput(store, table)


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `delta` under `input`."""
    wanted = read_spec(spec, DeltaSpec, field="input.delta")
    location, options = await _place(wanted, context, side="input", error=InputError)

    def load(version: str) -> TableSnapshot:
        with table_errors(InputError, "input.delta", options):
            try:
                number = int(version) if version else wanted.version
                table = DeltaTable(location, version=number, storage_options=options)
                return delta_snapshot(table, context, _shown(wanted), options)
            except TableNotFoundError as error:
                raise InputError(
                    f"input.delta: there is no Delta table in {_shown(wanted)}"
                ) from error
            except DeltaError as error:
                if fault := unsupported(error):
                    raise InputError(
                        f"input.delta: {_shown(wanted)}: {fault}", is_retryable=False
                    ) from error
                raise

    yield SnapshotSource(load, context, label="input.delta", allow_empty=wanted.allow_empty)


class DeltaRunTable(RunTable[DeltaTable]):
    """The table of one run's results."""

    label = "output.delta"

    def __init__(self, location: str, options: dict[str, str], *, run: str) -> None:
        self.options = options
        self._location = location
        self._app = f"inferrun-{run}"

    def load(self) -> DeltaTable | None:
        """Read the log."""
        try:
            return DeltaTable(self._location, storage_options=self.options)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            if fault := unsupported(error):
                raise OutputError(f"{self.label}: {fault}", is_retryable=False) from error
            raise

    def create(self, columns: pyarrow.Schema) -> DeltaTable:
        """Write the first entry of the log."""
        schema = Schema.from_arrow(columns)
        with suppress(CommitFailedError):  # another run has just created it
            return DeltaTable.create(
                self._location, schema, mode="ignore", storage_options=self.options
            )
        return DeltaTable(self._location, storage_options=self.options)

    def found(self, table: DeltaTable) -> TableVerdict | None:
        """Look for the transaction."""
        version = table.transaction_version(self._app)
        return None if version is None else TableVerdict(version)

    def commit(self, table: DeltaTable, outcome: TableVerdict, parts: Sequence[StoredPart]) -> bool:
        """Write the next entry of the log."""
        actions: list[AddAction | RemoveAction] = []
        for one in parts:
            stats = json.dumps({"numRecords": one.records})
            actions.append(
                AddAction(
                    f"{FOLDER}/{one.name}",
                    one.bytes,
                    {},
                    int(time.time() * 1000),
                    data_change=True,
                    stats=stats,
                )
            )
        # checkpoints of others are v2, or protected
        is_plain = table.protocol().writer_features is None
        properties = CommitProperties(
            app_transactions=[Transaction(self._app, outcome)], max_commit_retries=0
        )
        hooks = PostCommitHookProperties(
            create_checkpoint=is_plain, cleanup_expired_logs=None if is_plain else False
        )
        try:
            table.create_write_transaction(
                actions,
                "append",
                schema=table.schema(),
                commit_properties=properties,
                post_commithook_properties=hooks,
            )
        except CommitFailedError as error:
            if fault := unsupported(error):  # since the run began
                raise OutputError(f"{self.label}: {fault}", is_retryable=False) from error
            return False
        return True

    def obstacle(self, table: DeltaTable) -> str:
        """Read the protocol."""
        if found := table.metadata().partition_columns:
            return f"the table is partitioned by {', '.join(found)}; use one that is not"
        return unappendable(table)

    def fields(self, table: DeltaTable, columns: pyarrow.Schema) -> tuple[Fields, Fields]:
        """Read the schema."""
        found = (table.schema().fields, Schema.from_arrow(columns).fields)
        stored, given = ({one.name: (one.type, one.nullable) for one in fields} for fields in found)
        return stored, given


async def _place(
    spec: DeltaSpec, context: StoreContext, *, side: str, error: type[RunnerError]
) -> tuple[str, dict[str, str]]:
    """Return where the table is, and the options of its S3 client: only the mounted access key, and
    conditional writes."""
    if spec.claim_name:
        root = context.output_dir if side == "output" else context.input_dir
        if not (root / spec.path).resolve().is_relative_to(root.resolve()):
            raise error(
                f"{side}.delta: path {spec.path!r} leads out of the claim", is_retryable=False
            )
        return str(root / spec.path), {}
    url = spec.endpoint or f"https://{spec.bucket}.s3.{spec.region}.amazonaws.com"
    await check_address(url, context, f"{side}.delta.endpoint", error)
    with mounted_key(spec, context, side=side, error=error) as (_, (key, secret, token)):
        options = {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": spec.region,
            "AWS_CONDITIONAL_PUT": "etag",
        }
    if token:
        options["AWS_SESSION_TOKEN"] = token
    if spec.endpoint:
        options |= {
            "AWS_ENDPOINT_URL": spec.endpoint,
            "AWS_ALLOW_HTTP": str(url.startswith("http:")).lower(),
        }
    return f"s3://{spec.bucket}/{spec.path}", options


def _shown(spec: DeltaSpec) -> str:
    return f"s3://{spec.bucket}/{spec.path}" if spec.bucket else f"{spec.claim_name}/{spec.path}"

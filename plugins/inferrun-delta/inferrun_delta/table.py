"""The Delta table: which columns it takes, and the transaction that adds a run, once. Blocks.

Each run is an application transaction of the log (`txn`): version 1 says that its rows are in the table, version 0 that it was
aborted. Delta lets no two transactions of one run commit on the same snapshot; so whoever writes looks the version up in the
snapshot that it writes on, and of a late Pod and a verification only one can win. Other runs commit at the same time.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import types

from inferrun.plugins import OutputError, StoredPart
from inferrun_delta.spec import FOLDER

COMMITTED, ABORTED = 1, 0

_CONFLICTS = 100
"""Commits of other writers after which an attempt gives up; each takes part of a second."""

_FEATURES = frozenset({"appendOnly", "timestampNtz", "deletionVectors"})
"""What a table may require of writers so that whole files can be added to it."""


class RunTable:
    """The table of one run's results."""

    def __init__(self, location: str, options: Mapping[str, str], *, run_id: str) -> None:
        self._location = location
        self._options = dict(options)
        self._app = f"inferrun-{run_id}"

    def outcome(self) -> int | None:
        """Return COMMITTED or ABORTED; None if neither is in the log."""
        with self._errors():
            table = self._table()
            return None if table is None else table.transaction_version(self._app)

    def prepare(self, columns: pyarrow.Schema) -> None:
        """Create the table with these columns, or check that it takes them."""
        for column in columns:
            if not _is_storable(column.type):
                raise OutputError(
                    f"output.delta: column {column.name!r} has the type {column.type}, which a Delta table does not have; set "
                    f"output.delta.types.{column.name} to another one",
                    is_retryable=False,
                )
        with self._errors():
            table = self._table()
            if table is None:
                self._create(columns)
                table = self._table()
            if table is None:
                raise deleted()
            if fault := _misfit(table, columns):
                raise OutputError(f"output.delta: {fault}", is_retryable=False)

    def add(self, parts: Sequence[StoredPart]) -> int | None:
        """Add the parts to the table unless the run is committed or aborted; return which one it is then.

        None: there is no table.
        """
        return self._decide(COMMITTED, [_action(part) for part in parts])

    def abort(self) -> int | None:
        """Let no attempt add its parts later, unless one has; return which one it is then. None: there is no table."""
        return self._decide(ABORTED, [])

    def _decide(self, version: int, actions: list[AddAction | RemoveAction]) -> int | None:
        properties = CommitProperties(app_transactions=[Transaction(self._app, version)], max_commit_retries=0)
        for _ in range(_CONFLICTS):
            with self._errors():
                table = self._table()
                if table is None:
                    return None
                if (found := table.transaction_version(self._app)) is not None:
                    return found
                try:
                    table.create_write_transaction(
                        actions, "append", schema=table.schema(), commit_properties=properties
                    )
                except CommitFailedError:
                    continue
                return version
        raise OutputError("output.delta: other writers commit to the table all the time")

    def _create(self, columns: pyarrow.Schema) -> None:
        schema = Schema.from_arrow(columns.remove_metadata())
        DeltaTable.create(self._location, schema=schema, mode="ignore", storage_options=self._options)

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._location, storage_options=self._options)
        except TableNotFoundError:
            return None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            text = " ".join(str(error).split())[:300]
            raise OutputError(f"output.delta: the log of the table cannot be read or written: {text}") from error


def deleted() -> OutputError:
    """The table of a run that has begun is gone."""
    return OutputError("output.delta: the table was deleted during the run; start a new run", is_retryable=False)


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


def _is_storable(kind: pyarrow.DataType) -> bool:
    """Whether a Delta table has a type in which the values of a file with this one are read unchanged."""
    if types.is_struct(kind):
        return all(_is_storable(kind.field(at).type) for at in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_storable(kind.value_type)
    if types.is_timestamp(kind):
        return bool(kind.unit == "us" and kind.tz in (None, "UTC"))
    return any(
        test(kind)
        for test in (
            types.is_boolean,
            types.is_signed_integer,
            types.is_float32,
            types.is_float64,
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
            types.is_date32,
            types.is_decimal128,
        )
    )

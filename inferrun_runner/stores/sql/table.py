"""The table of results: its typed columns, and how the rows of a chunk get into it. Imports
pyarrow.

Results are spooled as Arrow, received in a temporary table, and inserted from there with the types
of the table's columns.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final, cast

import orjson
import pyarrow
from pyarrow import compute

from inferrun.formats.copy_text import SETTINGS, TableRows, digest_of, quoted
from inferrun.formats.result_schema import ERROR_TYPE, JSON_TEXT, ResultSchema, Role, value_type
from inferrun.formats.table_results import TableWriter
from inferrun.formats.typed_values import is_json
from inferrun.plugins import ID_COLUMN, ContractError, InputPlan, OutputError, ResultWriter
from inferrun_runner.stores.run_folder.documents import columns_of
from inferrun_runner.stores.sql.database import Transaction
from inferrun_runner.stores.sql.server_errors import ServerError

_SPOOLED: Final = "inferrun_spooled"
_RECEIVED: Final = f"pg_temp.{_SPOOLED}"
_NAMES: Final = {
    pyarrow.bool_(): "boolean",
    pyarrow.int16(): "smallint",
    pyarrow.int32(): "integer",
    pyarrow.int64(): "bigint",
    pyarrow.float32(): "real",
    pyarrow.float64(): "double precision",
    pyarrow.string(): "text",
    pyarrow.binary(): "bytea",
    pyarrow.date32(): "date",
    pyarrow.time64("us"): "time without time zone",
    pyarrow.timestamp("us"): "timestamp without time zone",
    pyarrow.timestamp("us", "UTC"): "timestamp with time zone",
}
_WIDER: Final = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric", "double precision"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "text": ("character varying",),
}
"""Types that a column may have instead, because they have all values."""

_EQUAL: Final = {
    pyarrow.int8(): pyarrow.int16(),
    pyarrow.uint8(): pyarrow.int16(),
    pyarrow.uint16(): pyarrow.int32(),
    pyarrow.uint32(): pyarrow.int64(),
    pyarrow.uint64(): pyarrow.decimal128(20, 0),
    pyarrow.float16(): pyarrow.float32(),
    pyarrow.large_string(): pyarrow.string(),
    pyarrow.large_binary(): pyarrow.binary(),
    pyarrow.date64(): pyarrow.date32(),
}
_ENDS: Final = {
    pyarrow.date32(): (-719_162, 2_932_896),
    pyarrow.time64("us"): (0, 86_399_999_999),
    pyarrow.timestamp("us"): (-62_135_596_800_000_000, 253_402_300_799_999_999),
    pyarrow.timestamp("us", "UTC"): (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
"""The first and the last value, as Arrow has them, that PostgreSQL and its clients in Python have,
too."""

_NUL_IN_JSON: Final = r"(^|[^\\])(\\\\)*\\u0000"
"""The character NUL in a JSON text."""

_DEFAULT: Final = pyarrow.schema(
    [
        pyarrow.field(name, kind, metadata={b"inferrun.role": role, **more})
        for name, kind, role, more in (
            ("index", pyarrow.int64(), b"index", {}),
            (ID_COLUMN, pyarrow.string(), b"key", {}),
            ("prediction", pyarrow.string(), b"prediction", JSON_TEXT),
            ("error", ERROR_TYPE, b"error", {}),
        )
    ]
)
"""The columns of a run whose plan has no types."""


class ResultTable:
    """The table of one run. `name` is SQL, `location` is shown."""

    lacking = (
        "what the database or its clients do not have: the character NUL, which a column of the type json has, a year before 1 or "
        "after 9999, or the time 24:00"
    )

    def __init__(self, name: str, plan: InputPlan, *, location: str) -> None:
        given = (
            ResultSchema.deserialized(plan.result_schema).arrow if plan.result_schema else _DEFAULT
        )
        self._name = name
        self._location = location
        self._schema = pyarrow.schema([_stored_field(one) for one in given])
        roles = ResultSchema(self._schema)
        if "run" in (*roles.names(Role.COPIED), *roles.names(Role.PREDICTION)):
            raise ContractError("output.sql: a column of the results has the name 'run'; rename it")
        self._rows = TableRows({one.name: one.role for one in columns_of(plan)})
        self._found: Mapping[str, str] = {}

    def create(self, transaction: Transaction) -> None:
        """Create the table, or the columns that it lacks. Raises OutputError for a column of
        another type."""
        wanted = {one.name: _type_name(one) for one in self._schema}
        if not found_columns(transaction, self._name):
            columns = [
                f"{quoted(name)} {kind}"
                for name, kind in {"index": "", ID_COLUMN: "text", **wanted}.items()
            ]
            text = f"create table {self._name} (run text, {', '.join(columns)}, primary key (run, index))"
            transaction.rows(text)
        found = found_columns(transaction, self._name)
        if "run" not in found:
            raise OutputError(
                f"output.sql.table: {self._location} has no column 'run'; name a table of results",
                is_retryable=False,
            )
        missing = [
            f"add column {quoted(name)} {kind}"
            for name, kind in wanted.items()
            if name not in found
        ]
        if missing:
            transaction.rows(f"alter table {self._name} {', '.join(missing)}")
            found = found_columns(transaction, self._name)
        for name, kind in wanted.items():
            given = found.get(name, kind)
            wider = ("numeric",) if kind.startswith("numeric(") else _WIDER.get(kind, ())
            if given not in (kind, *wider, "json", "jsonb", "text" if name == ID_COLUMN else kind):
                raise OutputError(
                    f"output.sql.table: column {name!r} of {self._location} has type {given}, expected {kind}; change it, set "
                    f"output.sql.types.{name}, or name another table",
                    is_retryable=False,
                )
        self._found = found
        are_json = {
            name for name in wanted if name != "error" and found.get(name) in ("json", "jsonb")
        }
        self._schema = pyarrow.schema(
            [_as_json(one) if one.name in are_json else one for one in self._schema]
        )

    def lacks(self, name: str, column: pyarrow.Array) -> set[int]:
        """Return the positions of the values that the table cannot have."""
        return {*_unstorable(column, is_jsonb=self._found.get(name) == "jsonb")}

    def writer(self, out: BinaryIO, _: BinaryIO) -> ResultWriter:
        """Return the writer of the rows of a chunk. Errors are rows of the same table."""
        return TableWriter(self._schema, _SpooledRows, out, io.BytesIO(), place=self)

    def receive(self, transaction: Transaction, path: Path) -> tuple[str, int]:
        """Send the rows that were spooled, and return their digest and size."""
        self._create_received(transaction)
        with pyarrow.OSFile(str(path)) as content:
            transaction.append(_SPOOLED, pyarrow.ipc.open_stream(content))
        transaction.bind(SETTINGS)
        ((digest, size),) = transaction.rows(
            digest_of(f"select index, {self._selected()} from {_RECEIVED}")  # noqa: S608  names
        )
        return str(digest), int(str(size))

    def insert(self, transaction: Transaction, run: str, *, records: int) -> None:
        """Insert the rows that were received. Raises OutputError if the table has fewer afterwards.

        A trigger or a rule may drop rows, or redirect them, as partitions by inheritance do: then
        they are counted where they are read.
        """
        names = ", ".join(map(quoted, self._rows.names))
        text = f"insert into {self._name} (run, index, {names}) select $1, index, {self._selected()} from {_RECEIVED}"  # noqa: S608
        stored = transaction.count(text, run)
        if stored < records:
            text = f"select count(*) from {self._name} where run = $1 and index in (select index from {_RECEIVED})"  # noqa: S608
            ((found,),) = transaction.rows(text, run)
            stored = int(str(found))
        if stored < records:
            raise OutputError(
                f"output.sql.table: {self._location} has stored {stored} of {records} rows that were inserted; change the trigger, "
                "the rule or the policy that drops or hides rows, or name another table",
                is_retryable=False,
            )

    def check(self, transaction: Transaction, run: str, *, index: int) -> None:
        """Insert rows as the run will. Raises ServerError for what does not depend on the values of
        a record.

        With no row, for rights, computed columns, and what is not a table. With one, whose values
        are null, for a column that must not be null and that no run sets, for a foreign key of the
        run, and for a missing partition. Other errors may be due to those nulls.
        """
        is_partitioned_by_values = self._is_partitioned_by_values(transaction)
        self._create_received(transaction)
        self.insert(transaction, run, records=0)
        transaction.rows(f"insert into {_RECEIVED} (index) values ({index})")  # noqa: S608  names
        try:
            self.insert(transaction, run, records=0)
        except ServerError as error:
            report = error.report
            is_certain = {
                "23502": report.column not in self._rows.names,
                "23503": True,
                "23514": not report.constraint and not is_partitioned_by_values,
            }
            if report.is_of_statement and is_certain.get(report.state, False):
                raise

    def _is_partitioned_by_values(self, transaction: Transaction) -> bool:
        """Return whether a column that a record has, or an expression, says to which partition a
        row belongs."""
        text = (
            "select a.attname::text from pg_partition_tree(to_regclass($1)) t join pg_partitioned_table p on p.partrelid = t.relid "
            "cross join unnest(p.partattrs::int2[]) key left join pg_attribute a on a.attrelid = p.partrelid and a.attnum = key"
        )
        return any(
            name is None or name in self._rows.names
            for (name,) in transaction.rows(text, self._name)
        )

    def _create_received(self, transaction: Transaction) -> None:
        """Create the table that receives rows. It ends with its transaction, and not with a
        session, which a pooler keeps."""
        columns = ", ".join(
            f"{quoted(one.name)} {_type_name(one, is_sent=True)}" for one in self._schema
        )
        transaction.rows(f"create temporary table {_SPOOLED} ({columns}) on commit drop")

    def _selected(self) -> str:
        return ", ".join(self._value(name) for name in self._rows.names)

    def _value(self, name: str) -> str:
        """Return a column of the spooled rows, with the type that it has in the table."""
        kind = self._found[name]
        return (
            f"to_json({self._sent(name)})::{kind}"
            if kind in ("json", "jsonb")
            else f"{self._sent(name)}::{kind}"
        )

    def _sent(self, name: str) -> str:
        field = self._schema.field(name)
        if is_json(value_type(field)) or name == "error":
            return f"{quoted(name)}::json"
        return (
            f"encode({quoted(name)}, 'hex')::uuid" if field.type == pyarrow.uuid() else quoted(name)
        )


class _SpooledRows:
    """A file of rows, as the driver sends them."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        kinds = {pyarrow.uuid(): pyarrow.binary(16), ERROR_TYPE: pyarrow.string()}
        self._schema = pyarrow.schema([(one.name, kinds.get(one.type, one.type)) for one in schema])
        self._file = pyarrow.ipc.new_stream(out, self._schema)

    def write_batch(self, batch: pyarrow.RecordBatch) -> None:
        """Append rows."""
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name == "error":
                texts = [one and _error_text(one) for one in column.to_pylist()]
                columns.append(pyarrow.array(texts, pyarrow.string()))
            else:
                columns.append(column.storage if column.type == pyarrow.uuid() else column)
        self._file.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Complete the file."""
        self._file.close()


def _error_text(error: Mapping[str, object]) -> str:
    return orjson.dumps(
        {name: value for name, value in error.items() if value is not None}
    ).decode()


def _unstorable(column: pyarrow.Array, *, is_jsonb: bool) -> list[int]:
    """Return the positions of the values that PostgreSQL does not have, or that psycopg raises
    for."""
    kind = column.type
    if pyarrow.types.is_struct(kind):
        return [at for one in column.flatten() for at in _unstorable(one, is_jsonb=is_jsonb)]
    if pyarrow.types.is_list(kind):
        rows = compute.list_parent_indices(column)
        return [rows[at].as_py() for at in _unstorable(column.flatten(), is_jsonb=is_jsonb)]
    if kind == pyarrow.string():
        lacking = compute.match_substring(column, "\0")
        if is_jsonb:
            lacking = compute.or_(lacking, compute.match_substring_regex(column, _NUL_IN_JSON))
    elif kind in _ENDS:
        first, last = _ENDS[kind]
        values = column.view(pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64())
        lacking = compute.or_(compute.less(values, first), compute.greater(values, last))
    else:
        return []
    found: list[int] = compute.indices_nonzero(lacking).to_pylist()
    return found


def _as_json(field: pyarrow.Field) -> pyarrow.Field:
    return pyarrow.field(field.name, pyarrow.string(), metadata={**field.metadata, **JSON_TEXT})


def _stored_field(field: pyarrow.Field) -> pyarrow.Field:
    """Return a column of results with a type that a column of a table can have."""
    if field.name == "error":
        return field
    kind = _stored_type(value_type(field))
    return (
        _as_json(field)
        if is_json(kind)
        else pyarrow.field(field.name, kind, metadata=field.metadata)
    )


def _stored_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    types = pyarrow.types
    if types.is_timestamp(kind):
        return pyarrow.timestamp("us", kind.tz and "UTC")
    if types.is_time(kind):
        return pyarrow.time64("us")
    if types.is_fixed_size_binary(kind):
        return pyarrow.binary()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _stored_type(kind.value_type)
        is_plain = item in _NAMES or types.is_decimal(item)
        return pyarrow.list_(item) if is_plain else pyarrow.json_()
    kind = _EQUAL.get(kind, kind)
    is_number = types.is_decimal(kind) and 0 <= kind.scale <= kind.precision
    return kind if kind in _NAMES or is_number or kind == pyarrow.uuid() else pyarrow.json_()


def _type_name(field: pyarrow.Field, *, is_sent: bool = False) -> str:
    """Return the type of a column as the server writes it, or the one as which the driver sends
    it."""
    kind = value_type(field)
    if is_json(kind) or field.name == "error":
        return "text" if is_sent else "json"
    if pyarrow.types.is_list(kind):
        return f"{_type_name(kind.value_field, is_sent=is_sent)}[]"
    if kind == pyarrow.uuid():
        return "bytea" if is_sent else "uuid"
    if pyarrow.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return _NAMES[kind]


def found_columns(transaction: Transaction, table: str) -> dict[str, str]:
    """Return the types of the columns of a table; empty if it does not exist."""
    text = (
        "select attname::text, format_type(atttypid, atttypmod) from pg_attribute "
        "where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum"
    )
    return dict(cast("list[tuple[str, str]]", transaction.rows(text, table)))

"""The rows of a query as Arrow columns: what is selected of them, and which types they have.

Types that Arrow has are kept, and all others are selected as the text that the server shows. A
value that Arrow or Python does not have, such as an infinite time, is an error of its record, and
null. Imports pyarrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow
from pyarrow import compute

from inferrun.formats.columns import block_of, check_types
from inferrun.formats.copy_text import quoted
from inferrun.formats.record_errors import not_sent
from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Block,
    ColumnSelection,
    InputError,
    RecordError,
)
from inferrun_runner.stores.sql.database import Transaction

_NUMERIC: Final = "numeric"
_INTEGERS: Final = frozenset({"int2", "int4", "int8"})
_TEXTS: Final = frozenset({"text", "varchar", "name"})
_TIMES: Final = {
    "date": ("0001-01-01", "9999-12-31"),
    "time": ("00:00:00", "23:59:59.999999"),
    "timestamp": ("0001-01-01", "9999-12-31 23:59:59.999999"),
    "timestamptz": ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
}
"""The first and the last value that Python has, too: psycopg 3.3 raises for the others, and pyarrow
26 reads 24:00 as 00:00."""

_PLAIN: Final = _INTEGERS | _TEXTS | {"bool", "float4", "float8", "bytea"}
_KEPT: Final = _PLAIN | {*_TIMES, "uuid", "json", "jsonb"}
"""The types that Arrow has, alone and as items of arrays; and numeric, if its precision is
declared."""

_SHOWN_OTHERWISE: Final = frozenset({"bpchar", "inet", "xml"})
"""Types whose cast to text is not what the server shows: it removes blanks, adds /32, keeps an
encoding that is not the text's."""

_DIGITS: Final = 76
"""The largest precision of a decimal number."""

_FAULT: Final = "inferrun_fault"
"""The last column, with the position, from 1, of the column whose value Arrow does not have. A
column of the query may have its name."""

_UNLIKE_TYPES: Final = {"character": "bpchar", "bit": '"bit"'}
"""Types whose names, as the server writes them, would have the length 1."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str
    """The name of its type, or for arrays that of their items."""

    is_array: bool
    decimal: pyarrow.DataType | None

    def is_kept(self, columns: ColumnSelection) -> bool:
        if self.name == ID_COLUMN:
            return not self.is_array and self.kind in _INTEGERS | _TEXTS
        if self.name in columns.fed and not columns.takes_any and self.kind in _KEPT - _PLAIN:
            return False  # tensors have no such datatype, and have always had the text
        return self.kind in _KEPT or self.decimal is not None

    @property
    def text(self) -> str:
        """The text of the value, or of the items of an array, as the server shows it."""
        name = quoted(self.name)
        if self.kind in _SHOWN_OTHERWISE:  # an array's text has what is shown of its items
            return f"{name}::text::text[]" if self.is_array else f"(array[{name}]::text::text[])[1]"
        return f"{name}::{'text[]' if self.is_array else 'text'}"

    def selected(self, columns: ColumnSelection) -> str:
        """Return what is selected: a value that Arrow does not have is null."""
        value = quoted(self.name) if self.is_kept(columns) else self.text
        if faults := self.faults(columns):
            value = f"case when ({faults}) is not true then {value} end"
        return f"{value} as {quoted(self.name)}"

    def faults(self, columns: ColumnSelection) -> str:
        """Return the condition for a value that Arrow does not have; empty if it has all."""
        name = quoted(self.name)
        found = [f"array_ndims({name}) > 1"] if self.is_array else []
        if self.is_kept(columns):
            if self.kind in _TIMES:
                (first, last), each = _TIMES[self.kind], f"any({name})" if self.is_array else name
                found += [f"'{first}' > {each}", f"'{last}' < {each}"]
            if self.decimal is not None:
                found.append(f"{name} = 'NaN'")
        return " or ".join(found)


class Rows:
    """The rows of a query. `columns` says what is used of them; `keys` are columns that feed the
    model only if it names them."""

    def __init__(
        self, found: pyarrow.Schema, columns: ColumnSelection, *, keys: Sequence[str] = ()
    ) -> None:
        """`found`: the columns of the query. Raises InputError if they cannot be used."""
        self._columns = columns
        self._keys = keys
        self._found = [_column_of(field) for field in found]
        unfed = {ID_COLUMN, *keys} - {*columns.fed}
        if not {*found.names} - unfed:
            text = f"input.sql.query: it must have a column for the model, besides the key and {ID_COLUMN}"
            raise InputError(text, is_retryable=False)
        self.schema = pyarrow.schema(
            [self._field_of(one, field) for one, field in zip(self._found, found, strict=True)]
        )
        """The columns that are read of the query."""

        if keys and ID_COLUMN not in found.names:
            is_number = len(keys) == 1 and pyarrow.types.is_integer(self.schema.field(keys[0]).type)
            kind = self.schema.field(keys[0]).type if is_number else pyarrow.string()
            self.schema = self.schema.append(pyarrow.field(ID_COLUMN, kind))
        used = [
            self._number(one)
            for one in self.schema
            if one.name not in unfed or one.name in columns.named
        ]
        check_types(pyarrow.schema(used), columns, where="input.sql.query")

    def selected(self) -> str:
        """Return what is selected of the query, as SQL."""
        names = [one.selected(self._columns) for one in self._found]
        if len(self.schema) > len(names):
            keys = ", ".join(map(quoted, self._keys))
            text = (
                f"jsonb_build_array({keys})::text"
                if len(self._keys) > 1
                else self._key_text(self._keys[0])
            )
            names.append(f"{text} as {quoted(ID_COLUMN)}")
        faults = [
            (at, text)
            for at, one in enumerate(self._found, 1)
            if (text := one.faults(self._columns))
        ]
        cases = " ".join(f"when {text} then {at}" for at, text in faults)
        return ", ".join([*names, f"{f'case {cases} end' if cases else 'null'}::int4 as {_FAULT}"])

    @property
    def _received(self) -> pyarrow.Schema:
        return self.schema.append(pyarrow.field(_FAULT, pyarrow.int32()))

    def received(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return selected rows with the types of the schema, and the column of faults."""
        columns = [
            _typed(column, one.type)
            for column, one in zip(batch.columns, self.schema, strict=False)
        ]
        return pyarrow.RecordBatch.from_arrays([*columns, batch.columns[-1]], schema=self._received)

    def restored(self, spooled: bytes) -> pyarrow.RecordBatch:
        """Return rows that `received` returned and that were serialized."""
        return pyarrow.ipc.read_record_batch(pyarrow.py_buffer(spooled), self._received)

    def block(self, received: pyarrow.RecordBatch, *, first: int) -> Block:
        """Return the records in rows, the first of which has this index in the input."""
        *columns, faults = received.columns
        table = pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)
        names = self._columns.fed_of(
            [name for name in table.schema.names if name not in self._keys]
        )
        fed = [self._number(table.schema.field(name)) for name in names]
        records = [_typed(table.column(one.name), one.type) for one in fed]
        errors = {}
        for at in compute.indices_nonzero(compute.is_valid(faults)).to_pylist():
            errors[at] = _unreadable(first + at, self._found[faults[at].as_py() - 1].name)
        for field, column in zip(fed, records, strict=True):
            # a numeric, which may be larger than any floating-point number
            if field != table.schema.field(field.name):
                infinite = compute.indices_nonzero(compute.is_inf(column)).to_pylist()
                errors |= {at: _unreadable(first + at, field.name) for at in infinite}
        block = block_of(table, self._columns)
        return replace(
            block,
            records=ArrowRecords(
                pyarrow.RecordBatch.from_arrays(records, schema=pyarrow.schema(fed))
            ),
            errors=errors,
        )

    def _key_text(self, key: str) -> str:
        is_number = pyarrow.types.is_integer(self.schema.field(ID_COLUMN).type)
        # as the server shows it
        return quoted(key) if is_number else f"format('%s', {quoted(key)})"

    def _field_of(self, column: _Column, found: pyarrow.Field) -> pyarrow.Field:
        text = pyarrow.list_(pyarrow.string()) if column.is_array else pyarrow.string()
        kind = (column.decimal or found.type) if column.is_kept(self._columns) else text
        return pyarrow.field(column.name, kind)

    def _number(self, field: pyarrow.Field) -> pyarrow.Field:
        """Return a column as it feeds the model: there are no tensors of decimal numbers."""
        is_numeric = any(
            one.name == field.name and one.kind == _NUMERIC and not one.is_array
            for one in self._found
        )
        return (
            field.with_type(pyarrow.float64())
            if is_numeric and not self._columns.takes_any
            else field
        )


def canonical(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return a copy that serializes to the same bytes for equal rows. The driver does not clear the
    bits after the last row."""
    return batch.take(pyarrow.array(range(batch.num_rows), pyarrow.int64()))


def rows_of(
    reading: Transaction, query: str, columns: ColumnSelection, *, keys: Sequence[str] = ()
) -> Rows:
    """Return the rows of a query in parentheses. Raises InputError."""
    found = reading.schema(f"select * from {query}")  # noqa: S608  the user's query
    if missing := [name for name in keys if name not in found.names]:
        raise InputError(
            f"input.sql.key: {missing[0]!r} must be a column of the query; it has {', '.join(found.names[:20]) or 'no columns'}",
            is_retryable=False,
        )
    if twice := next((name for name in found.names if found.names.count(name) > 1), None):
        raise InputError(
            f"input.sql.query: it has several columns {twice!r}; name each", is_retryable=False
        )
    return Rows(found, columns, keys=keys)


@dataclass(frozen=True, slots=True)
class RowKey:
    """The columns that identify a row, and how they are compared."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """The types as SQL; empty if the query has no rows."""

    schemas: tuple[str, ...]
    """Where the operators of each type are, by which rows are ordered: that need not be a schema of
    `search_path`, and citext without its own would be compared as text."""

    def compared(self, operator: str, settings: Sequence[str]) -> str:
        """Return the condition for rows whose key is `>=`, or `<`, values that settings have as
        texts."""
        columns = ", ".join(map(quoted, self.columns))
        values = ", ".join(
            f"current_setting('{name}')::{kind}"
            for name, kind in zip(settings, self.types, strict=True)
        )
        schema, *others = set(self.schemas)
        if others:  # no index is used, but each type has its order
            return f"record_{'ge' if operator == '>=' else 'lt'}(row({columns}), row({values}))"
        return f"({columns}) operator({quoted(schema)}.{operator}) ({values})"


_OPERATORS: Final = """
with recursive base(oid, next) as (
    select oid, typbasetype from pg_type where oid = $1::regtype
    union all select t.oid, t.typbasetype from base join pg_type t on t.oid = base.next)
select n.nspname::text from base
join pg_opclass c on c.opcintype = base.oid and c.opcdefault join pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
join pg_amop a on a.amopfamily = c.opcfamily and (a.amoplefttype, a.amoprighttype, a.amopstrategy) = (base.oid, base.oid, 4)
join pg_operator o on o.oid = a.amopopr join pg_namespace n on n.oid = o.oprnamespace
where base.next = 0"""
"""The schema of the operator `>=` of a type, or of what a domain is based on; without a row, it is
one of the server's own."""


def row_key(reading: Transaction, query: str, keys: Sequence[str]) -> RowKey:
    """Return how the key of a query is compared."""
    names = ", ".join(f"pg_typeof({quoted(name)})::text" for name in keys)
    (types,) = reading.rows(f"select {names} from {query} limit 1") or [()]  # noqa: S608  names and the user's query
    found = [reading.rows(_OPERATORS, str(one)) for one in types]
    return RowKey(
        tuple(keys),
        tuple(_UNLIKE_TYPES.get(one, one) for one in map(str, types)),
        tuple(str(rows[0][0]) if rows else "pg_catalog" for rows in found),
    )


def _column_of(field: pyarrow.Field) -> _Column:
    metadata = field.metadata or {}
    kind = metadata[b"POSTGRESQL:type"].decode()
    is_array = bool(pyarrow.types.is_list(field.type)) and kind.startswith("_")
    decimal = _decimal(int(metadata.get(b"POSTGRESQL:typmod", b"-1"))) if kind == _NUMERIC else None
    return _Column(field.name, kind.removeprefix("_") if is_array else kind, is_array, decimal)


def _decimal(modifier: int) -> pyarrow.DataType | None:
    """Return the type of numbers with the precision and scale in a type modifier; None if Arrow has
    no such type."""
    precision, scale = (
        (modifier - 4) >> 16 & 0xFFFF,
        ((modifier - 4 & 0x7FF) ^ 0x400) - 0x400,
    )  # of 11 bits, with a sign
    if modifier < 4 or precision > _DIGITS or not 0 <= scale <= precision:
        return None
    return (
        pyarrow.decimal128(precision, scale)
        if precision <= 38
        else pyarrow.decimal256(precision, scale)
    )


def _typed(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    if column.type == kind:
        return column
    if pyarrow.types.is_decimal(kind):  # the driver has them as texts
        texts = column.storage
        return texts.cast(kind)
    # pyarrow 26 divides by a power of ten: a tenth of all decimal numbers would not be the nearest
    # floating-point number.
    return (
        column.cast(pyarrow.string()) if pyarrow.types.is_decimal(column.type) else column
    ).cast(kind)


def _unreadable(index: int, name: str) -> RecordError:
    return not_sent(
        f"record {index}: column {name!r} has a value that cannot be read: infinity, NaN, 24:00, a year before 1 or after 9999, or "
        "an array of several dimensions; select another value, or the text of it"
    )

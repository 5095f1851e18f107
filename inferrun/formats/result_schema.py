"""The columns of the results of a run, and the names of types. Imports pyarrow, so only runs with
typed results load it.

The columns are decided once, when a run begins, and are the same in every file: `index`, the id of
the record if the input has ids, the columns that are copied, `prediction` (or one column per
output), and `error`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

import pyarrow

from inferrun.fields.type_names import read_type
from inferrun.formats.exact_casts import normalized, stored_type
from inferrun.formats.typed_values import is_json
from inferrun.plugins import ID_COLUMN, ContractError

ERROR_TYPE: Final = pyarrow.struct(
    [("code", pyarrow.string()), ("message", pyarrow.string()), ("attempts", pyarrow.int64())]
)

JSON_TEXT: Final = {b"inferrun": b"json"}
"""Metadata of a column of JSON texts."""

_ROLE: Final = b"inferrun.role"


class Role(StrEnum):
    """What a column of the results is."""

    INDEX = "index"
    KEY = "key"
    COPIED = "copied"
    PREDICTION = "prediction"
    ERROR = "error"


@dataclass(frozen=True)
class ResultSchema:
    """The columns of the results. Each field has its role in its metadata."""

    arrow: pyarrow.Schema

    @staticmethod
    def deserialized(content: bytes) -> "ResultSchema":
        """Return what `serialized` returned."""
        return ResultSchema(pyarrow.ipc.read_schema(pyarrow.py_buffer(content)))

    def serialized(self) -> bytes:
        """Return the columns for `InputPlan.result_schema`."""
        return bytes(self.arrow.serialize())

    def names(self, role: Role) -> tuple[str, ...]:
        """Return the columns with a role."""
        return tuple(
            one.name for one in self.arrow if (one.metadata or {}).get(_ROLE) == role.encode()
        )

    @property
    def failed(self) -> pyarrow.Schema:
        """The columns of error files: all except those of the predictions."""
        return pyarrow.schema(
            [one for one in self.arrow if one.name not in self.names(Role.PREDICTION)]
        )

    @cached_property
    def is_flat(self) -> bool:
        """Whether each output of the model is a column of its own."""
        return self.names(Role.PREDICTION) != (Role.PREDICTION,)

    @property
    def predicted(self) -> pyarrow.DataType:
        """The type of a prediction: of a flat schema, a struct of its columns."""
        fields = [self.arrow.field(name) for name in self.names(Role.PREDICTION)]
        return (
            pyarrow.struct([(one.name, value_type(one)) for one in fields])
            if self.is_flat
            else value_type(fields[0])
        )


def result_schema(
    *,
    key: pyarrow.DataType | None,
    copied: Iterable[pyarrow.Field],
    predicted: pyarrow.DataType,
    types: Mapping[str, str],
    is_flat: bool,
    field: str,
) -> ResultSchema:
    """Return the columns of a run's results.

    `key` is the type of the ids, None if there are none; `types` are those that the config in
    `field` declares by column. Raises ContractError.
    """
    fields = [with_role(pyarrow.field(Role.INDEX, pyarrow.int64(), nullable=False), Role.INDEX)]
    if key is not None:
        fields.append(with_role(_column(ID_COLUMN, key), Role.KEY))
    fields += [
        with_role(_column(one.name, value_type(one), one.metadata), Role.COPIED) for one in copied
    ]
    if is_flat and pyarrow.types.is_struct(predicted) and predicted.num_fields:
        fields += [
            with_role(_column(one.name, one.type, one.metadata), Role.PREDICTION)
            for one in predicted
        ]
    else:
        fields.append(with_role(_column(Role.PREDICTION, predicted), Role.PREDICTION))
    fields.append(with_role(pyarrow.field(Role.ERROR, ERROR_TYPE), Role.ERROR))
    names = [one.name for one in fields]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ContractError(
            f"{field}.flatten: the model and the input have a column {twice!r}; rename one in tensors.outputs"
        )
    for name, text in types.items():
        at = names.index(name) if name in names else -1
        if at < 0 or name in (Role.INDEX, Role.ERROR):
            raise ContractError(
                f"{field}.types.{name}: the results have no such column; they have {', '.join(names[1:-1])}"
            )
        fields[at] = with_role(
            _column(name, parse_type(text)),
            next(one for one in Role if name in ResultSchema(pyarrow.schema(fields)).names(one)),
        )
    return ResultSchema(pyarrow.schema(fields))


def _column(
    name: str, kind: pyarrow.DataType, metadata: Mapping[bytes, bytes] | None = None
) -> pyarrow.Field:
    """Return a column as files have it. JSON texts are strings with metadata, and only plain types
    are stored."""
    kind = _plain(kind)
    kept = {
        name: value for name, value in (metadata or {}).items() if name.startswith(b"inferrun.")
    }
    return pyarrow.field(
        name, stored_type(kind), metadata={**kept, **(JSON_TEXT if is_json(kind) else {})}
    )


def _plain(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type without encodings that only some readers know; what cannot be stored is JSON
    text."""
    types = pyarrow.types
    if types.is_string_view(kind):
        return pyarrow.large_string()
    if types.is_binary_view(kind):
        return pyarrow.large_binary()
    return normalized(kind) if _is_storable(kind) and not types.is_null(kind) else pyarrow.json_()


def _is_storable(kind: pyarrow.DataType) -> bool:
    """Whether Parquet has the type: neither unions, nor intervals, nor structs without members."""
    parts = [kind.field(at).type for at in range(kind.num_fields)]
    types = pyarrow.types
    is_empty = types.is_struct(kind) and not parts
    return not (is_empty or types.is_union(kind) or types.is_interval(kind)) and all(
        map(_is_storable, parts)
    )


def value_type(field: pyarrow.Field) -> pyarrow.DataType:
    """Return the type of the values in a column: that of JSON texts is not the stored one."""
    return pyarrow.json_() if (field.metadata or {}).items() >= JSON_TEXT.items() else field.type


def with_role(field: pyarrow.Field, role: Role) -> pyarrow.Field:
    """Return a field with its role in the results."""
    return field.with_metadata({**(field.metadata or {}), _ROLE: role.encode()})


class _Types:
    """The types of Arrow that names stand for."""

    def simple(self, name: str) -> pyarrow.DataType:
        return pyarrow.json_() if name == "json" else pyarrow.type_for_alias(name)

    def decimal(self, precision: int, scale: int) -> pyarrow.DataType:
        return (pyarrow.decimal128 if precision <= _MAX_128 else pyarrow.decimal256)(
            precision, scale
        )

    def time(self, name: str, unit: str, zone: str | None) -> pyarrow.DataType:
        return _TIMES[name](*filter(None, (unit, zone)))

    def items(self, kind: pyarrow.DataType, length: int | None) -> pyarrow.DataType:
        return pyarrow.list_(kind, -1 if length is None else length)

    def struct(self, members: Sequence[tuple[str, pyarrow.DataType]]) -> pyarrow.DataType:
        return pyarrow.struct(members)


_MAX_128: Final = 38
"""The most digits of a decimal in 128 bits."""

_TIMES: Final = {
    "timestamp": pyarrow.timestamp,
    "time32": pyarrow.time32,
    "time64": pyarrow.time64,
    "duration": pyarrow.duration,
}


def parse_type(text: str) -> pyarrow.DataType:
    """Return the type of a name, such as `int32`, `decimal(20, 6)`, `timestamp[us, UTC]`,
    `list<float>`, `float[384]` or `struct<a: int32, b: string>`. Raises ValueError, which names
    those that are allowed."""
    found: pyarrow.DataType = read_type(text, _Types())
    return found

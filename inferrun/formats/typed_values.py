"""Values as Arrow columns of a given type. What does not fit exactly is found, and becomes null. Pure.

JSON texts are parsed many at a time. Only if one of them does not fit are they divided, until it is found.
"""

import re
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Final, TypeVar

import orjson
import pyarrow
from pyarrow import compute, json

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.formats.json_columns import DAY, PER_SECOND, texts_in
from inferrun.formats.json_text import text_of
from inferrun.plugins import Json

V = TypeVar("V", Sequence[bytes], Sequence[object], pyarrow.Array)

_EXACT_INTEGERS: Final = 2**53
"""Floating-point numbers below this have all integers."""


def is_json(kind: pyarrow.DataType) -> bool:
    """Whether values of the type are JSON texts."""
    return bool(kind == pyarrow.json_())


def stored_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type as files have it: JSON texts are strings."""
    if is_json(kind):
        return pyarrow.string()
    if pyarrow.types.is_struct(kind):
        return pyarrow.struct([one.with_type(stored_type(one.type)) for one in kind])
    return kind


def array_of_texts(texts: Sequence[bytes], kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
    """Return the values of JSON texts in the stored type, and the positions of those that do not fit."""
    if is_json(kind):
        column = pyarrow.array(texts, pyarrow.binary()).cast(pyarrow.string())
        return compute.if_else(compute.equal(column, "null"), pyarrow.scalar(None, pyarrow.string()), column), []
    readable = _readable(kind)
    if readable is None:
        return divided(texts, lambda part: _from_python(part, kind), kind)
    return divided(texts, lambda part: _parsed(part, readable, kind), kind)


def array_of_column(column: pyarrow.Array, kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
    """Return the values of a column in another type, and the positions of those that do not fit."""
    if is_json(kind):
        texts = texts_in(column)
        found, _ = array_of_texts([text or b"null" for text in texts], kind)
        return found, [at for at, text in enumerate(texts) if text is None]
    if column.type == kind:
        return column, []
    return divided(column, lambda part: _checked(part.cast(kind)), kind)


def array_of_values(values: Sequence[object], kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
    """Return Python's values in a type, and the positions of those that do not fit."""
    return divided(values, lambda part: pyarrow.array(part, kind), kind)


def divided(
    values: V, convert: Callable[[V], pyarrow.Array], kind: pyarrow.DataType
) -> tuple[pyarrow.Array, list[int]]:
    """Return converted values, and the positions of those that cannot be converted, which are null."""
    try:
        return convert(values), []
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError):
        if len(values) <= 1:
            return pyarrow.nulls(len(values), stored_type(kind)), list(range(len(values)))
    half = len(values) // 2
    first, faults = divided(values[:half], convert, kind)
    second, more = divided(values[half:], convert, kind)
    return pyarrow.concat_arrays([first, second]), faults + [half + at for at in more]


def _readable(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """Return the type that pyarrow reads from JSON, and from which it can convert to this one; None if there is none."""
    types = pyarrow.types
    if types.is_date32(kind):
        return pyarrow.string()
    if types.is_float16(kind):
        return pyarrow.float32()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _readable(kind.value_type)
        return None if item is None else pyarrow.list_(item)
    if types.is_struct(kind):
        members = [(field.name, _readable(field.type)) for field in kind]
        return None if any(one is None for _, one in members) else pyarrow.struct(members)
    is_plain = (
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_timestamp(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
    )
    return kind if is_plain else None


def _parsed(texts: Sequence[bytes], readable: pyarrow.DataType, kind: pyarrow.DataType) -> pyarrow.Array:
    content = b'{"v":' + b'}\n{"v":'.join(texts) + b"}"
    table = json.read_json(
        BytesIO(content),
        read_options=json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=json.ParseOptions(
            explicit_schema=pyarrow.schema([("v", readable)]),
            newlines_in_values=True,
            unexpected_field_behavior="error",
        ),
    )
    column = table.column(0).combine_chunks()
    column = column.chunk(0) if isinstance(column, pyarrow.ChunkedArray) else column
    if len(column) != len(texts):
        raise ValueError("a text has more than one value")
    if _has_large_integer(column):
        for text in texts:
            _check_integers(orjson.loads(text))
    return _checked(column if readable == kind else column.cast(kind))


def has_floats(kind: pyarrow.DataType) -> bool:
    """Whether values of the type are floating-point numbers, or contain some."""
    return bool(pyarrow.types.is_floating(kind)) or any(
        has_floats(kind.field(at).type) for at in range(kind.num_fields)
    )


def _numbers_in(column: pyarrow.Array) -> list[pyarrow.Array]:
    """Return the columns of floating-point numbers within a column."""
    types = pyarrow.types
    if types.is_floating(column.type):
        return [column]
    if types.is_struct(column.type):
        return [one for part in column.flatten() for one in _numbers_in(part)]
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        return _numbers_in(column.flatten())
    return []


def _has_large_integer(column: pyarrow.Array) -> bool:
    return any(
        compute.any(compute.greater_equal(compute.abs(one), float(_EXACT_INTEGERS))).as_py()
        for one in _numbers_in(column)
        if one.type == pyarrow.float64()
    )


def _check_integers(value: Json) -> None:
    """Raise ValueError for an integer that no floating-point number equals."""
    if isinstance(value, list):
        for one in value:
            _check_integers(one)
    elif isinstance(value, dict):
        for one in value.values():
            _check_integers(one)
    elif type(value) is int and int(float(value)) != value:
        raise ValueError("an integer is not a floating-point number")


def _checked(column: pyarrow.Array) -> pyarrow.Array:
    """Return a column that was parsed or converted. Raises ValueError if a number became infinite."""
    column.validate(full=True)  # the digits of decimals
    for one in _numbers_in(column):
        numbers = one.cast(pyarrow.float32()) if one.type == pyarrow.float16() else one
        if compute.any(compute.is_inf(numbers)).as_py():
            raise ValueError("a number is too large")
    return column


def _from_python(texts: Sequence[bytes], kind: pyarrow.DataType) -> pyarrow.Array:
    return pyarrow.array([_value_of(orjson.loads(text), kind) for text in texts], stored_type(kind))


def _value_of(value: Json, kind: pyarrow.DataType) -> object:  # noqa: PLR0911  one per kind
    """Return a value that pyarrow converts to the type: bytes for base64 or a text, Python's times for texts."""
    types = pyarrow.types
    if value is None:
        return None
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if not isinstance(value, list):
            raise TypeError("no list")
        return [_value_of(one, kind.value_type) for one in value]
    if types.is_struct(kind):
        if not isinstance(value, dict) or set(value) - set(kind.names):
            raise TypeError("no struct")
        return {field.name: _value_of(value.get(field.name), field.type) for field in kind}
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        found = bytes_in(value)
        if found is None and not isinstance(value, str):
            raise TypeError("no bytes")
        return value.encode() if isinstance(value, str) else found
    if is_json(kind):
        return text_of(value).decode()
    if types.is_time(kind) or (types.is_duration(kind) and isinstance(value, str)):
        return _ticks(value, kind)
    if types.is_timestamp(kind) or types.is_decimal(kind) or types.is_date(kind):  # beside values that only this reads
        column, faults = array_of_texts([text_of(value)], kind)
        if faults:
            raise ValueError("no value of the type")
        return column[0]
    return value


_TIME: Final = re.compile(r"(\d\d):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?", re.ASCII)
_DURATION: Final = re.compile(r"PT(-?)(\d{1,10})(?:\.(\d{1,9}))?S", re.ASCII)


def _ticks(value: Json, kind: pyarrow.DataType) -> int:
    """Return a time of day or a duration in the unit of its type. Raises ValueError, also for one that would be rounded."""
    is_time, text = pyarrow.types.is_time(kind), value if isinstance(value, str) else ""
    found = (_TIME if is_time else _DURATION).fullmatch(text)
    if found is None:
        raise ValueError("no time")
    *parts, fraction = found.groups(default="0")
    seconds = sum(int(one) * size for one, size in zip(parts, (3600, 60, 1), strict=True)) if is_time else int(parts[1])
    ticks, rest = divmod(seconds * 10**9 + int(fraction.ljust(9, "0")), 10**9 // PER_SECOND[kind.unit])
    if rest or (is_time and ticks > DAY * PER_SECOND[kind.unit]):
        raise ValueError("no time of this type")
    return -ticks if parts[0] == "-" else ticks

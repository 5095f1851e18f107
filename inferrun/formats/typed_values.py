"""Values as Arrow columns of a given type. What does not fit exactly is found, and becomes null.
Pure.

JSON texts are parsed many at a time. Only if one of them does not fit are they divided, until it is
found.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from json import JSONDecoder, dumps, loads
from typing import Any, Final

import orjson
import pyarrow
from pyarrow import compute, json

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.formats.exact_casts import (
    cast_exactly,
    converted,
    divided,
    is_nearest,
    parts_in,
    stored_type,
)
from inferrun.formats.json_columns import DAY, PER_SECOND, is_any_list, texts_in
from inferrun.formats.json_text import array_of
from inferrun.plugins import Json

_AT_ONCE: Final = 64
"""Texts whose digits are compared in one call: with more, most of the time goes into memory."""

_EXACT_INTEGERS: Final = 2**53
"""Floating-point numbers below this have all integers."""


def is_json(kind: pyarrow.DataType) -> bool:
    """Whether values of the type are JSON texts."""
    return bool(kind == pyarrow.json_())


def array_of_texts(
    texts: Sequence[bytes], kind: pyarrow.DataType
) -> tuple[pyarrow.Array, list[int]]:
    """Return the values of JSON texts in the stored type, and the positions of those that do not
    fit."""
    if is_json(kind):
        column = pyarrow.array(texts, pyarrow.binary()).cast(pyarrow.string())
        return compute.if_else(
            compute.equal(column, "null"), pyarrow.scalar(None, pyarrow.string()), column
        ), []
    if _is_readable(kind):
        return divided(texts, lambda part: _parsed(part, kind), kind)
    return divided(texts, lambda part: _from_python([_loaded(text) for text in part], kind), kind)


def array_of_column(
    column: pyarrow.Array, kind: pyarrow.DataType
) -> tuple[pyarrow.Array, list[int]]:
    """Return the values of a column in another type, and the positions of those that do not fit."""
    if is_json(kind):
        texts = texts_in(column)
        found, _ = array_of_texts([text or b"null" for text in texts], kind)
        return found, [at for at, text in enumerate(texts) if text is None]
    return cast_exactly(column, kind)


def array_of_values(
    values: Sequence[object], kind: pyarrow.DataType
) -> tuple[pyarrow.Array, list[int]]:
    """Return Python's values in a type, and the positions of those that do not fit."""
    return divided(values, lambda part: _from_python(part, kind), kind)


@lru_cache(maxsize=1024)
def _form(kind: pyarrow.DataType, *, narrow: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type in which values of JSON are read before they get this one; `narrow`: of
    numbers of less than 64 bits."""
    types = pyarrow.types
    if types.is_float16(kind) or types.is_float32(kind):
        return narrow
    if types.is_decimal(kind) or types.is_timestamp(kind) or types.is_date(kind) or is_json(kind):
        return pyarrow.string()
    if is_any_list(kind):
        return pyarrow.list_(_form(kind.value_type, narrow=narrow))
    if types.is_struct(kind):
        return pyarrow.struct([(one.name, _form(one.type, narrow=narrow)) for one in kind])
    return kind


def _in_type(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return values of JSON in their type. A narrow number that is not equal to the wide one may
    have the same text: 0.1."""
    if column.type == kind:
        return column
    kind = stored_type(kind)
    try:
        return converted(column, kind)
    except (pyarrow.ArrowInvalid, ValueError):
        return converted(converted(column, _form(kind, narrow=pyarrow.string())), kind)


def _is_readable(kind: pyarrow.DataType) -> bool:
    """Whether pyarrow reads the type from JSON, or what it is made of."""
    types = pyarrow.types
    if is_any_list(kind):
        return _is_readable(kind.value_type)
    if types.is_struct(kind):
        return all(_is_readable(one.type) for one in kind)
    is_number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    is_time = types.is_timestamp(kind) or types.is_date32(kind)
    return bool(is_number or is_time or types.is_string(kind) or types.is_large_string(kind))


def _parsed(texts: Sequence[bytes], kind: pyarrow.DataType) -> pyarrow.Array:
    column = _read(texts, _form(kind, narrow=pyarrow.float64()))
    numbers = list(parts_in(column, pyarrow.types.is_floating))
    if any(
        compute.any(compute.greater_equal(compute.abs(one), float(_EXACT_INTEGERS))).as_py()
        for one in numbers
    ):
        return _from_python([_loaded(text) for text in texts], kind)
    for start in range(0, len(texts), _AT_ONCE) if numbers else ():
        some = texts[start : start + _AT_ONCE]
        if not _are_shortest(array_of(some)):
            for text in some:
                _CHECKING.decode(text.decode())
    return _in_type(column, kind)


def _read(texts: Sequence[bytes], kind: pyarrow.DataType) -> pyarrow.Array:
    content = b'{"v":' + b'}\n{"v":'.join(texts) + b"}"
    table = json.read_json(
        BytesIO(content),
        read_options=json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=json.ParseOptions(
            explicit_schema=pyarrow.schema([("v", kind)]),
            newlines_in_values=True,
            unexpected_field_behavior="error",
        ),
    )
    column = table.column(0).combine_chunks()
    column = column.chunk(0) if isinstance(column, pyarrow.ChunkedArray) else column
    if len(column) != len(texts):
        raise ValueError("a text has more than one value")
    return column


def _are_shortest(text: bytes) -> bool:
    """Whether each number is written with the fewest digits that one of 64 bits needs, as orjson or
    Python do, and so is exact."""
    value, compact = orjson.loads(text), _compact(text)
    return _compact(orjson.dumps(value)) == compact or _compact(dumps(value).encode()) == compact


def _compact(text: bytes) -> bytes:
    return text.translate(None, b" \t\r\n")


def _checked_number(text: str) -> float:
    if not is_nearest(number := float(text), text):
        raise ValueError("a number has more digits")
    return number


_CHECKING: Final = JSONDecoder(parse_float=_checked_number)


def has_floats(kind: pyarrow.DataType) -> bool:
    """Whether values of the type are floating-point numbers, or contain some."""
    return bool(pyarrow.types.is_floating(kind)) or any(
        has_floats(kind.field(at).type) for at in range(kind.num_fields)
    )


def _loaded(text: bytes) -> Json:
    """Return the value of a JSON text, with the digits of its numbers."""
    try:
        found: Json = loads(text, parse_float=Decimal)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return found


def _from_python(values: Sequence[object], kind: pyarrow.DataType) -> pyarrow.Array:
    form, take = _form(kind, narrow=pyarrow.float64()), _taker(kind)
    given = [None if value is None else take(value) for value in values]
    return _in_type(pyarrow.array(given, form), kind)


Taker = Callable[[Any], object]  # Any: what JSON and Python have
"""Returns a value, which is not None, in the form of a type; pyarrow (26.0) would make an integer
of a fraction. Raises ValueError or TypeError."""


@lru_cache(maxsize=1024)
def _taker(kind: pyarrow.DataType) -> Taker:  # noqa: PLR0911  a table of kinds
    """Return what takes the values of a type, which is found out once and not for each record."""
    types = pyarrow.types
    if is_json(kind):
        return _json_text
    if is_any_list(kind):
        return _list_taker(kind.value_type)
    if types.is_struct(kind):
        return _struct_taker(kind)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _bytes_of
    if types.is_floating(kind):
        return _float_of
    if types.is_integer(kind):
        return _integer_of
    if types.is_duration(kind):
        return lambda value: _integer_of(value) if _is_number(value) else _ticks_of(value, kind)
    if types.is_time(kind):
        return lambda value: _ticks_of(value, kind)
    if types.is_decimal(kind):
        return lambda value: str(value) if _is_number(value) else _text_of(value)
    return _text_of if types.is_temporal(kind) else _same


def _list_taker(item: pyarrow.DataType) -> Taker:
    is_float, take = pyarrow.types.is_floating(item), _taker(item)

    def taken(value: Any) -> object:  # Any: as above
        if not isinstance(value, list):
            raise TypeError("no list")
        is_plain = is_float and set(map(type, value)) <= {float}
        return value if is_plain else [None if one is None else take(one) for one in value]

    return taken


def _struct_taker(kind: pyarrow.DataType) -> Taker:
    takers = {field.name: _taker(field.type) for field in kind}

    def taken(value: Any) -> object:  # Any: as above
        if not isinstance(value, dict) or value.keys() - takers.keys():
            raise TypeError("no struct")
        return {
            name: None if (one := value.get(name)) is None else take(one)
            for name, take in takers.items()
        }

    return taken


def _json_text(value: object) -> str:
    return orjson.dumps(value, default=lambda one: orjson.Fragment(str(one))).decode()


def _bytes_of(value: Any) -> object:  # Any: as above
    if isinstance(value, str):
        return value.encode()
    found = value if isinstance(value, bytes) else bytes_in(value)
    if found is None:
        raise TypeError("no bytes")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _float_of(value: Any) -> object:  # Any: as above
    if not _is_number(value) or isinstance(value, float):
        return value
    number = float(value)
    if not is_nearest(number, str(value)):
        raise ValueError("a number has more digits")
    return number


def _integer_of(value: Any) -> object:  # Any: as above
    if not _is_number(value):
        return value
    if value != (whole := int(value)):
        raise ValueError("a fraction")
    return whole


def _ticks_of(value: object, kind: pyarrow.DataType) -> int:
    return _ticks(value if isinstance(value, str) else "", kind)


def _text_of(value: object) -> object:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _same(value: object) -> object:
    return value


_TIME: Final = re.compile(r"(\d\d):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?", re.ASCII)
_DURATION: Final = re.compile(r"PT(-?)(\d{1,10})(?:\.(\d{1,9}))?S", re.ASCII)


def _ticks(text: str, kind: pyarrow.DataType) -> int:
    """Return a time of day or a duration in the unit of its type. Raises ValueError, also for one
    that would be rounded."""
    is_time = pyarrow.types.is_time(kind)
    found = (_TIME if is_time else _DURATION).fullmatch(text)
    if found is None:
        raise ValueError("no time")
    *parts, fraction = found.groups(default="0")
    seconds = (
        sum(int(one) * size for one, size in zip(parts, (3600, 60, 1), strict=True))
        if is_time
        else int(parts[1])
    )
    ticks, rest = divmod(
        seconds * 10**9 + int(fraction.ljust(9, "0")), 10**9 // PER_SECOND[kind.unit]
    )
    if rest or (is_time and ticks > DAY * PER_SECOND[kind.unit]):
        raise ValueError("no time of this type")
    return -ticks if parts[0] == "-" else ticks

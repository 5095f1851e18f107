"""Values of Arrow columns as JSON texts: one form for each type, from which `array_of_texts` makes
the same values. Pure.

A number is the shortest text that a reader of its type reads as this number: 0.1 in 32 bits is
`0.1`. What JSON does not have is a string: decimals with all their digits, `NaN`, `Infinity` and
`-Infinity` (as in Spark, PostgreSQL and Protocol Buffers), and in the forms of ISO 8601 dates,
times, and durations. Lists are arrays, structs and maps are objects. Imports pyarrow.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice, pairwise
from math import isfinite, isnan
from typing import Any, Final

import orjson
import pyarrow
from pyarrow import compute

from inferrun.formats.bytes_in_json import json_of_bytes
from inferrun.formats.json_text import texts_of

Texts = list[bytes | None]
"""One JSON text per value; None for a value that has none, such as a date after the year 9999."""

_NULL: Final = b"null"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NONE: Final = timedelta()
DAY: Final = 86_400
_FIRST_DAY, _LAST_DAY = (one.toordinal() - _EPOCH.toordinal() for one in (date.min, date.max))
_OFFSETS: Final[dict[str | None, str]] = {
    None: "",
    **dict.fromkeys(("UTC", "Etc/UTC", "Z", "+00:00"), "+00:00"),
}
"""What follows moments without a zone, and of the zones of UTC."""

PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def texts_in(column: pyarrow.Array) -> Texts:  # noqa: PLR0911, PLR0912  one form after the other
    """Return the JSON texts of a column."""
    types, kind = pyarrow.types, column.type
    if kind == pyarrow.json_():
        return _each(column.storage, _compact)
    if kind == pyarrow.uuid():
        return _each(column, lambda value: b'"%b"' % str(value).encode())
    if kind == pyarrow.bool8():
        return texts_in(column.storage.cast(pyarrow.bool_()))
    if isinstance(kind, pyarrow.BaseExtensionType):
        return texts_in(column.storage)
    if types.is_dictionary(kind):
        return texts_in(column.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return texts_in(compute.run_end_decode(column))
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind):
        return list(orjson.dumps(column.to_pylist())[1:-1].split(b",")) if len(column) else []
    if types.is_floating(kind):
        return _floats(column)
    if types.is_decimal(kind):
        return _each(column, lambda value: b'"%b"' % format(value, "f").encode())
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _each(column, orjson.dumps)
    if is_bytes(kind):
        return _each(column, lambda value: orjson.dumps(json_of_bytes(value)))
    if types.is_date(kind) or (types.is_timestamp(kind) and kind.tz in _OFFSETS):
        return _dated(column)
    if types.is_time(kind):
        return _each(_integers(column), lambda value: _time(value, PER_SECOND[kind.unit]))
    if types.is_timestamp(kind):
        zone = _zone(kind.tz)
        return _each(_integers(column), lambda value: _moment(value, PER_SECOND[kind.unit], zone))
    if types.is_duration(kind):
        return _each(
            _integers(column), lambda value: b'"PT%b"' % _seconds(value, PER_SECOND[kind.unit])
        )
    if types.is_interval(kind):
        return _each(
            column,
            lambda value: b'"P%dM%dDT%b"' % (*value[:2], _seconds(value[2], PER_SECOND["ns"])),
        )
    if types.is_struct(kind):
        members = [orjson.dumps(one.name) for one in kind]
        rows = (
            zip(*map(texts_in, column.flatten()), strict=True)
            if members
            else iter([()] * len(column))
        )
        return _with_nulls(column, [_object(members, row) for row in rows])
    if types.is_map(kind):
        offsets: list[int] = column.offsets.to_pylist()
        start, size = offsets[0], offsets[-1] - offsets[0]
        names = [_name(one) for one in texts_in(column.keys.slice(start, size))]
        values = texts_in(column.items.slice(start, size))
        places = [slice(one - start, end - start) for one, end in pairwise(offsets)]
        return _with_nulls(column, [_object(names[one], values[one]) for one in places])
    if is_any_list(kind):
        if _is_plain(column.flatten()):
            return list(texts_of(column.to_pylist()))
        items = iter(texts_in(column.flatten()))
        sizes: list[int | None] = compute.list_value_length(column).to_pylist()
        return [_NULL if one is None else _array(list(islice(items, one))) for one in sizes]
    # type_codes and offsets of a slice are those of other rows (pyarrow 26.0)
    if types.is_union(kind):
        return [
            _NULL if one.as_py() is None else texts_in(pyarrow.array([one.value]))[0]
            for one in column
        ]
    return _with_nulls(column, [None] * len(column))


def is_bytes(kind: pyarrow.DataType) -> bool:
    """Whether each value of a column of the type is bytes."""
    types = pyarrow.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def is_any_list(kind: pyarrow.DataType) -> bool:
    """Whether each value of a column of the type is a list, which may be a view."""
    types = pyarrow.types
    is_view = types.is_list_view(kind) or types.is_large_list_view(kind)
    return bool(
        is_view
        or types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    )


def _each(column: pyarrow.Array, form: Callable[[Any], bytes]) -> Texts:  # Any: what Arrow has
    try:
        return [_NULL if value is None else form(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # of one of them
        return [_one(value, form) for value in column]


def _one(value: pyarrow.Scalar, form: Callable[[Any], bytes]) -> bytes | None:  # Any: as above
    try:
        found = value.as_py()
        return _NULL if found is None else form(found)
    except (ValueError, OverflowError):
        return None


def _compact(text: str) -> bytes:
    """Return a JSON text as it is, in one line: line breaks in it are between values. Raises
    ValueError if it is not one."""
    orjson.loads(text)
    return text.replace("\r", " ").replace("\n", " ").strip().encode()


def _floats(column: pyarrow.Array) -> Texts:
    if not len(column):
        return []
    numbers = column.cast(pyarrow.float64())
    texts: Texts = list(orjson.dumps(numbers.to_pylist())[1:-1].split(b","))
    if pyarrow.types.is_float32(column.type):
        texts = _each(column.cast(pyarrow.string()), _with_point)
    for at, number in () if _is_plain(numbers) else enumerate(numbers.to_pylist()):
        if number is not None and not isfinite(number):
            texts[at] = (
                b'"NaN"' if isnan(number) else b'"Infinity"' if number > 0 else b'"-Infinity"'
            )
    return texts


def _is_plain(column: pyarrow.Array) -> bool:
    """Whether values are of numbers that orjson writes as they are."""
    if pyarrow.types.is_float64(column.type):
        return bool(compute.all(compute.is_finite(column), min_count=0).as_py())
    return bool(pyarrow.types.is_integer(column.type))


def _with_point(number: str) -> bytes:
    """Return a number as other programs know that it is not an integer."""
    return number.encode() if "." in number or "e" in number else b"%b.0" % number.encode()


def _integers(column: pyarrow.Array) -> pyarrow.Array:
    """Return days, or times since midnight or 1970, as Arrow has them. Python's own have neither
    nanoseconds nor 24:00:00."""
    return column.view(pyarrow.int32() if column.type.bit_width == 32 else pyarrow.int64())


def _dated(column: pyarrow.Array) -> Texts:
    """Return dates, or moments that have no zone or are in UTC, if they are in the years 1 to
    9999."""
    kind, values = column.type, _integers(column).cast(pyarrow.int64())
    is_moment, per_day, end = pyarrow.types.is_timestamp(kind), 1, '"'
    if is_moment:
        column = values.cast(pyarrow.timestamp(kind.unit))
        per_day = DAY * PER_SECOND[kind.unit]
        end = f'{_OFFSETS[kind.tz]}"'
    elif pyarrow.types.is_date64(kind):
        per_day = DAY * PER_SECOND["ms"]
    first, last = (_FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1)
    is_known = compute.and_(
        compute.greater_equal(values, max(first, -(1 << 63))),
        compute.less_equal(values, min(last, (1 << 63) - 1)),
    )
    texts = compute.if_else(is_known, column, pyarrow.scalar(None, column.type)).cast(
        pyarrow.string()
    )
    texts = compute.replace_substring_regex(texts, r"^([^ ]*) ([^.]*)(?:\.0+$)?", r"\1T\2")
    texts = compute.binary_join_element_wise('"', texts, end, "")
    found: Texts = (
        compute.if_else(values.is_valid(), texts, "null").cast(pyarrow.binary()).to_pylist()
    )
    return found


def _fraction(part: int, per_second: int) -> bytes:
    return b".%0*d" % (len(str(per_second)) - 1, part) if part else b""


def _time(value: int, per_second: int) -> bytes:
    seconds, part = divmod(value, per_second)
    if not 0 <= value <= DAY * per_second:
        raise ValueError("no time of a day")
    fraction = _fraction(part, per_second)
    return b'"%02d:%02d:%02d%b"' % (seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)


def _zone(name: str) -> tzinfo:
    """Return a zone; UTC for one that is not known here."""
    try:
        zone: tzinfo = pyarrow.scalar(0, pyarrow.timestamp("s", name)).as_py().tzinfo
    except (ValueError, KeyError):
        return UTC
    return zone


def _moment(value: int, per_second: int, zone: tzinfo) -> bytes:
    seconds, part = divmod(value, per_second)
    moment = _EPOCH + timedelta(seconds=seconds)
    with suppress(OverflowError):  # at the ends of the years 1 and 9999
        local = moment.astimezone(zone)
        # Before 1930, offsets may have seconds, which ISO 8601 does not have.
        if not (local.utcoffset() or _NONE) % timedelta(minutes=1):
            moment = local
    text = moment.isoformat().encode()
    return b'"%b%b%b"' % (text[:19], _fraction(part, per_second), text[19:])


def _seconds(value: int, per_second: int) -> bytes:
    whole, part = divmod(abs(value), per_second)
    return b"%b%d%bS" % (b"-" if value < 0 else b"", whole, _fraction(part, per_second))


def _with_nulls(column: pyarrow.Array, texts: Texts) -> Texts:
    return [
        text if one else _NULL
        for text, one in zip(texts, column.is_valid().to_pylist(), strict=True)
    ]


def _array(texts: Sequence[bytes | None]) -> bytes | None:
    found = [one for one in texts if one is not None]
    return b"[%b]" % b",".join(found) if len(found) == len(texts) else None


def _name(key: bytes | None) -> bytes | None:
    """Return the key of a map as the name of a member."""
    return key if key is None or key.startswith(b'"') else orjson.dumps(key.decode())


def _object(names: Sequence[bytes | None], texts: Sequence[bytes | None]) -> bytes | None:
    """Return an object; None if a member has no text, or two have the same name."""
    members = [
        b"%b:%b" % (name, text) for name, text in zip(names, texts, strict=True) if name and text
    ]
    is_whole = len(members) == len(names) == len(set(names))
    return b"{%b}" % b",".join(members) if is_whole else None

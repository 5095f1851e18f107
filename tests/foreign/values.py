"""When a value in a result is the one that other software reads: the exact rules of
`expected.json`. Pure.

| type of the column in the result | form in `expected.json` | equal if |
| --- | --- | --- |
| integer, floating number | number, or a text such as `nan` | the same number; of `float`, the same 32 bits |
| decimal | text, or an integer | the same number, whatever its zeros at the end |
| date, time, timestamp | text in ISO 8601, a blank for `T`; without an offset in UTC | the same instant, to the nanosecond |
| string | text; JSON's text may be its value | the same characters |
| bytes | text, or `{"b64": …}` if they are not UTF-8 | the same bytes |
| UUID | text or `{"b64": …}` | the same bytes |
| list, struct | array, object | item by item, of the same members |
| map | object, array of pairs, or of objects with `key` and `value` | the same pairs in the same order |
"""

import json
import re
import struct
import uuid
from base64 import b64decode
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ERA: Final = 146_097
"""Days of 400 years, after which the Gregorian calendar repeats."""

_DATE: Final = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?")
_OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)?")


def canonical(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911, PLR0912  one case per family of types; Any: JSON
    """Return what is the same for all forms of a value: those in `expected.json`, in JSON lines,
    and of `plain`.

    Raises ValueError if the value is none of the type.
    """
    types = pa.types
    if value is None:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.json":
            return json.loads(value) if isinstance(value, str) else value
        if kind.extension_name == "arrow.uuid" and isinstance(value, str):
            return uuid.UUID(value).bytes
        return canonical(value, kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return canonical(value, kind.value_type)
    if types.is_boolean(kind):
        return _of(value, bool)
    if types.is_integer(kind):
        return int(value)
    if types.is_floating(kind):
        # NaN equals itself as a text.
        code = {16: "e", 32: "f", 64: "d"}[kind.bit_width]
        return repr(struct.unpack(code, struct.pack(code, float(value)))[0])
    if types.is_decimal(kind):
        return Decimal(str(value))
    if types.is_date(kind):
        return value if isinstance(value, int) else _days(value) * 86_400 * 10**9
    if types.is_time(kind):
        return value if isinstance(value, int) else _clock(value)
    if types.is_timestamp(kind):
        return value if isinstance(value, int) else _instant(value)
    if types.is_map(kind):
        return [
            (canonical(key, kind.key_type), canonical(one, kind.item_type))
            for key, one in _pairs(value)
        ]
    if types.is_struct(kind):
        if {field.name for field in kind} != set(_of(value, Mapping)):
            raise ValueError(f"the members are {', '.join(value)}")
        return {field.name: canonical(value[field.name], field.type) for field in kind}
    if types.is_nested(kind):
        return [canonical(one, kind.value_type) for one in _of(value, list)]
    if is_binary(kind):
        return value if isinstance(value, bytes) else _bytes(value)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        if isinstance(value, str | Decimal):
            return str(value)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of the type are bytes."""
    types = pa.types
    return any(
        is_one(kind)
        for is_one in (
            types.is_binary,
            types.is_large_binary,
            types.is_binary_view,
            types.is_fixed_size_binary,
        )
    )


def plain(column: pa.Array) -> list[Any]:  # noqa: PLR0911  one case per family of types; Any: JSON, bytes, and nanoseconds
    """Return the values of a column. Times are nanoseconds: Python's have neither these nor years
    after 9999."""
    kind, types = column.type, pa.types
    if isinstance(column, pa.ChunkedArray):
        return [one for chunk in column.chunks for one in plain(chunk)]
    if isinstance(kind, pa.BaseExtensionType):
        return plain(column.storage)
    if types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        wide = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        unit = (
            86_400 * 10**9
            if types.is_date32(kind)
            else 10**9 // _PER_SECOND[getattr(kind, "unit", "ms")]
        )
        return [None if one is None else one * unit for one in wide.to_pylist()]
    if types.is_struct(kind):
        members = [plain(one) for one in column.flatten()]
        names = [field.name for field in kind]
        rows = zip(*members, strict=True) if members else [()] * len(column)
        return [
            dict(zip(names, row, strict=True)) if one else None
            for row, one in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    if types.is_map(kind):
        return [
            None
            if one.values is None
            else list(zip(plain(one.values.field(0)), plain(one.values.field(1)), strict=True))
            for one in column
        ]
    if types.is_nested(kind):
        return [None if one.values is None else plain(one.values) for one in column]
    return list(column.to_pylist())


def _of(value: Any, kind: type) -> Any:  # Any: JSON
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is no {kind.__name__}")  # noqa: TRY004  wrong values are reported alike
    return value


def _bytes(value: Any) -> bytes:  # Any: JSON
    return (
        b64decode(value["b64"], validate=True) if isinstance(value, dict) else str(value).encode()
    )


def _pairs(value: Any) -> list[tuple[Any, Any]]:  # Any: JSON
    if isinstance(value, dict):
        return list(value.items())
    return [(one["key"], one["value"]) if isinstance(one, dict) else tuple(one) for one in value]


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    if not (found := pattern.fullmatch(text)):
        raise ValueError(f"{text!r} is no date or time")
    return found


def _days(text: str) -> int:
    """Days since 1970, also of years that Python lacks."""
    year, month, day = map(int, _matched(_DATE, text).groups())
    eras, rest = divmod(year - 1, 400)
    return date(rest + 1, month, day).toordinal() - date(1970, 1, 1).toordinal() + eras * _ERA


def _clock(text: str) -> int:
    hours, minutes, seconds, fraction = _matched(_TIME, text).groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return whole * 10**9 + int(f"{fraction or '':0<9}"[:9])


def _instant(text: str) -> int:
    day, _, clock = text.strip().replace("T", " ").partition(" ")
    clock = clock.replace(" UTC", "").replace("Z", "") or "00:00"
    offset = 0
    if found := _OFFSET.search(clock):
        sign, hours, minutes = found.groups()
        offset = int(f"{sign}1") * (int(hours) * 60 + int(minutes or 0)) * 60
        clock = clock[: found.start()].strip()
    return _days(day) * 86_400 * 10**9 + _clock(clock) - offset * 10**9

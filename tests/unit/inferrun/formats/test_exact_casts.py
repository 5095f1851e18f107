"""The table of casts: every pair of types, with the values at the ends of each. A value becomes an
equal one or is refused.

The judge is exact arithmetic: numbers as fractions, times as counts of nanoseconds, which are read
from the buffers of a column and not by a conversion of pyarrow. What a text means is written here a
second time.
"""

import re
from collections import Counter
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from typing import Any, Final

import numpy
import pyarrow
import pytest
from pyarrow import types as kinds

from inferrun.formats.exact_casts import cast_exactly, check_cast, normalized

i8, i32, i64 = pyarrow.int8(), pyarrow.int32(), pyarrow.int64()
f16, f32, f64 = pyarrow.float16(), pyarrow.float32(), pyarrow.float64()
text = pyarrow.string()

_INTEGERS: Final = [
    pyarrow.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
]
_DECIMALS: Final = [
    pyarrow.decimal128(5, 2),
    pyarrow.decimal128(38, 0),
    pyarrow.decimal128(38, 38),
    pyarrow.decimal256(76, 2),
]
_NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_STAMPS: Final = [
    pyarrow.timestamp(unit, zone)
    for unit in _NANOSECONDS
    for zone in (None, "UTC", "America/New_York")
]
_TIMES: Final = [
    pyarrow.time32("s"),
    pyarrow.time32("ms"),
    pyarrow.time64("us"),
    pyarrow.time64("ns"),
]
_DURATIONS: Final = [pyarrow.duration(unit) for unit in _NANOSECONDS]
KINDS: Final = [
    pyarrow.bool_(), *_INTEGERS, f16, f32, f64, *_DECIMALS, text, pyarrow.large_string(), pyarrow.binary(), pyarrow.large_binary(),
    pyarrow.date32(), pyarrow.date64(), *_STAMPS, *_TIMES, *_DURATIONS,
]  # fmt: skip

_TEXTS: Final = (
    "", "0", "1", "-1", "2", "007", "0x10", "+5", " 5", "1.0", "1e3", "0.1", "1.255", "99999.99", "-0", "nan", "inf", "-Infinity",
    "1e400", "1e-400", "1e300", "70000", "16777217", "9007199254740993", "123456789012345678.25", "9223372036854775807",
    "9223372036854775808", "18446744073709551615", "1e999999999", "3e-324", "5e-324", "1.000000000000000056e-01",
    "0.10000000149011612", "true", "False", "t", "yes", "2026-01-02", "2026-01-02T00:00:00", "2026-01-02 03:04:05.123456789",
    "9999-12-31", "0001-01-01", "9999-12-31 23:59:59.999999", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00", "24:00:00",
    "01:02:03", "01:02:03.123456", "1970-01-01", "é",
)  # fmt: skip


def column_of(kind: pyarrow.DataType) -> pyarrow.Array:  # noqa: PLR0911  a table of types
    """Return the values of a type that are at its ends, and those at the ends of others."""
    near = [
        sign * (2**bits + one)
        for bits in (0, 1, 8, 11, 16, 24, 31, 32, 53, 63, 64)
        for one in (-1, 0, 1)
        for sign in (1, -1)
    ]
    if kinds.is_boolean(kind):
        return pyarrow.array([True, False, None])
    if kinds.is_integer(kind):
        low, high = numpy.iinfo(kind.to_pandas_dtype()).min, numpy.iinfo(kind.to_pandas_dtype()).max
        return pyarrow.array(
            [None, *{one for one in (*near, low, high) if low <= one <= high}], kind
        )
    if kinds.is_floating(kind):
        limits = numpy.finfo(kind.to_pandas_dtype())
        numbers = [
            *map(float, near),
            0.1,
            0.25,
            0.5,
            1.5,
            1.255,
            0.30000000000000004,
            -0.0,
            1e22,
            1e23,
            2.0**70,
            1e300,
            70000.0,
        ]
        numbers += [float("nan"), float("inf"), -float("inf")]
        with numpy.errstate(over="ignore"):
            found = numpy.array(
                [*numbers, limits.max, limits.min, limits.tiny, limits.smallest_subnormal],
                kind.to_pandas_dtype(),
            )
        return pyarrow.array(found)
    if kinds.is_decimal(kind):
        unit, largest = Decimal(1).scaleb(-kind.scale), 10**kind.precision - 1
        counts = [
            0,
            1,
            -1,
            largest,
            -largest,
            10**kind.scale,
            255 * 10**kind.scale,
            5 * 10**kind.scale // 10,
        ]
        counts += [one * 10**kind.scale for one in near] + [
            one * 10**kind.scale + 1 for one in near
        ]
        return pyarrow.array(
            [None, *(Context(100).multiply(unit, one) for one in counts if abs(one) <= largest)],
            kind,
        )
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return pyarrow.array([None, *_TEXTS], kind)
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return pyarrow.array([None, b"", b"ab", b"5", b"\xff", b"\x00"], kind)
    if kinds.is_time(kind):
        day = 86_400 * 10**9 // _NANOSECONDS[kind.unit]
        return pyarrow.array([0, 1, 3723, day // 2, day - 1], f"int{kind.bit_width}").view(kind)
    bits = kind.bit_width
    counts = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    for day in (-719162, 2932896, 20455, 10957):  # 0001-01-01, 9999-12-31, 2026-01-02, 2000-01-01
        one = {"date32[day]": 1, "date64[ms]": 86_400_000}.get(
            str(kind)
        ) or 86_400 * 10**9 // _NANOSECONDS[kind.unit]
        counts += (
            [day * one] if kinds.is_date(kind) else [day * one, day * one + 1, day * one + one // 2]
        )
    counts = [one for one in counts if abs(one) < 2 ** (bits - 1)]
    return pyarrow.array(
        [one for one in counts if kind != pyarrow.date64() or not one % 86_400_000], f"int{bits}"
    ).view(kind)


# Any: a fraction, a text, bytes or a special number
def meanings(column: pyarrow.Array) -> list[Any]:
    """Return what the values are: numbers as fractions, times in nanoseconds; None is null."""
    kind = column.type
    if kinds.is_temporal(kind):
        unit = (
            86_400 * 10**9
            if kind == pyarrow.date32()
            else 10**6
            if kind == pyarrow.date64()
            else _NANOSECONDS[kind.unit]
        )
        counts = column.view(f"int{kind.bit_width}").to_pylist()
        return [None if one is None else Fraction(one * unit) for one in counts]
    values = column.to_pylist()
    if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_decimal(kind):
        return [None if one is None else Fraction(one) for one in values]
    if kinds.is_floating(kind):
        return [one if one is None or one - one != 0 else Fraction(float(one)) for one in values]
    return list(values)


def is_nearest(number: Any, exact: Fraction, kind: pyarrow.DataType) -> bool:
    """Whether no other number of a floating-point type is nearer to an exact one."""
    value = kind.to_pandas_dtype()(float(number))
    with numpy.errstate(over="ignore", under="ignore"):
        others = [numpy.nextafter(value, kind.to_pandas_dtype()(to)) for to in ("inf", "-inf")]
    return all(
        abs(exact - number) <= abs(exact - Fraction(float(one)))
        for one in others
        if numpy.isfinite(one)
    )


def has_no_other_digits(number: Any, exact: Decimal) -> bool:
    """Whether a number, rounded to the last digit of a decimal, is this decimal."""
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    places = Decimal(1).scaleb(exact.adjusted() - len(digits) + 1) if digits else Decimal(1)
    context = Context(2000, Emin=-5000, Emax=5000)
    shown = context.divide(Decimal(number.numerator), Decimal(number.denominator)).quantize(
        places, context=context
    )
    return bool(context.compare(shown, exact) == 0)


_ISO: Final = re.compile(
    r"(?:(\d{4})-(\d\d)-(\d\d))?(?:(?:^|[ T])(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?)?"
)


def moment_of(value: str) -> Fraction | None:
    """Return the nanoseconds of a time in ISO 8601; None if it is none."""
    found = _ISO.fullmatch(value)
    if not found or not value:
        return None
    year, month, day, hour, minute, second, part, zone = found.groups()
    days = (
        (numpy.datetime64(f"{year}-{month}-{day}") - numpy.datetime64("1970-01-01")).astype(int)
        if year
        else 0
    )
    total = (int(days) * 24 + int(hour or 0)) * 3600 + int(minute or 0) * 60 + int(second or 0)
    if zone and zone != "Z":
        total -= int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
    return Fraction(total * 10**9 + int((part or "").ljust(9, "0")))


def is_equal(value: Any, given: pyarrow.DataType, found: Any, kind: pyarrow.DataType) -> bool:  # noqa: PLR0911, PLR0912  a table of pairs
    """Whether a value of one type is a value of another one."""
    is_text = kinds.is_string(given) or kinds.is_large_string(given)
    becomes_text = kinds.is_string(kind) or kinds.is_large_string(kind)
    if is_text and becomes_text:
        return bool(found == value)
    if isinstance(value, bytes) or isinstance(found, bytes):
        return bool(
            (value.encode() if isinstance(value, str) else value)
            == (found.encode() if isinstance(found, str) else found)
        )
    if becomes_text:
        if kinds.is_floating(given) and isinstance(value, Fraction):
            return is_nearest(value, Fraction(Decimal(found)), given)
        return is_equal(found, text, value, given)
    if is_text:
        if kinds.is_boolean(kind):
            return bool({"true": 1, "1": 1, "false": 0, "0": 0}.get(value.lower()) == found)
        if kinds.is_duration(kind):
            return bool(Fraction(value) * _NANOSECONDS[kind.unit] == found)
        if kinds.is_temporal(kind):
            return bool(moment_of(value) == found)
        exact = Decimal(value)
        if not isinstance(found, Fraction) or not exact.is_finite():
            return not exact.is_finite() and str(float(exact)) == str(float(found))
        if kinds.is_floating(kind):
            return has_no_other_digits(found, exact) and is_nearest(found, Fraction(exact), kind)
        return Fraction(exact) == found
    if kinds.is_temporal(given) != kinds.is_temporal(kind):
        time, count = (given, found) if kinds.is_temporal(given) else (kind, value)
        moment = value if kinds.is_temporal(given) else found
        unit = (
            86_400 * 10**9
            if time == pyarrow.date32()
            else 10**6
            if time == pyarrow.date64()
            else _NANOSECONDS[time.unit]
        )
        return bool(count * unit == moment)
    if not (isinstance(value, Fraction) and isinstance(found, Fraction)):
        return str(value) == str(found)
    if kinds.is_decimal(given) and kinds.is_floating(kind):
        exact = Context(100).divide(Decimal(value.numerator), Decimal(value.denominator))
        return has_no_other_digits(found, exact) and is_nearest(found, value, kind)
    if kinds.is_floating(given) and kinds.is_decimal(kind):
        return is_nearest(value, found, given)
    return value == found


def pairs() -> Iterator[tuple[pyarrow.DataType, pyarrow.DataType]]:
    for given, kind in product(KINDS, KINDS):
        try:
            check_cast(given, kind)
        except pyarrow.ArrowException:
            continue
        yield given, kind


def test_no_value_at_the_ends_of_a_type_is_changed_by_a_cast_to_another_type() -> None:
    counts: Counter[str] = Counter()
    changed: list[str] = []
    for given, kind in pairs():
        column = column_of(given)
        found, bad = cast_exactly(column, kind)
        found.validate(full=True)
        assert found.type == kind
        counts["pairs"] += 1
        is_dated = "New_York" in f"{given}{kind}"  # midnight in UTC is none there
        assert is_dated or len(bad) < len(column) - column.null_count, f"no {given} becomes {kind}"
        for at, (before, after) in enumerate(zip(meanings(column), meanings(found), strict=True)):
            if at in bad or before is None:
                assert after is None
                counts["refused"] += at in bad
                continue
            counts["equal"] += 1
            if not is_equal(before, given, after, kind):
                changed.append(f"{given} -> {kind}: {before} became {after}")
    assert not changed, "\n".join(changed[:50])
    assert counts["pairs"] > 600
    assert counts["equal"] > 8000


words = pyarrow.DictionaryArray.from_arrays(
    pyarrow.array([0, None, 1], i32), pyarrow.array(["a", "b"], pyarrow.string_view())
)
"""What polars writes for its types Categorical and Enum."""


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pyarrow.array([[6.0, 6.5], None, [5.0]], pyarrow.list_view(f64))[1:], [None, [5.0]]),
        (pyarrow.ListViewArray.from_arrays([2, 0], [2, 2], pyarrow.array([1.0, 2, 3, 4])), [[3.0, 4.0], [1.0, 2.0]]),
        (pyarrow.array([[[1]], [[2, 3], []]], pyarrow.large_list_view(pyarrow.list_view(i32))), [[[1]], [[2, 3], []]]),
        (pyarrow.array([{"x": [1]}, None], pyarrow.struct([("x", pyarrow.list_view(i32))])), [{"x": [1]}, None]),
        (words, ["a", None, "b"]),
        (pyarrow.ListArray.from_arrays([0, 1, 3], words)[1:], [[None, "b"]]),
        (pyarrow.StructArray.from_arrays([words[:1]], ["x"]), [{"x": "a"}]),
        (pyarrow.array([[("k", "v")], None], pyarrow.map_(text, pyarrow.string_view())), [[("k", "v")], None]),
        (pyarrow.RunEndEncodedArray.from_arrays([2, 4], pyarrow.array(["a", None], pyarrow.string_view()))[1:], ["a", None, None]),
        (pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([1, 3], i32), pyarrow.array([[1], [2]]))[1:], [[2], [2]]),
        (pyarrow.array([Decimal("1.50"), None], pyarrow.decimal32(5, 2)), [Decimal("1.50"), None]),
        (pyarrow.array([[1, 2], None], pyarrow.list_(pyarrow.list_view(i32).value_type, 2)), [[1, 2], None]),
    ],
)  # fmt: skip
def test_the_way_in_which_a_column_is_stored_changes_no_value(
    column: pyarrow.Array, expected: list[object]
) -> None:
    assert column.to_pylist() == expected
    found, bad = cast_exactly(column, normalized(column.type))
    found.validate(full=True)
    assert (found.to_pylist(), bad) == (expected, [])


def test_a_value_within_a_list_or_struct_that_does_not_fit_is_found() -> None:
    found, bad = cast_exactly(pyarrow.array([[1.0], [0.5, 2.0], None]), pyarrow.list_(i32))
    assert (found.to_pylist(), bad) == ([[1], None, None], [1])
    found, bad = cast_exactly(pyarrow.array([[1, 2], [3], None]), pyarrow.list_(f32, 2))
    assert (found.to_pylist(), bad) == ([[1.0, 2.0], None, None], [1])
    found, bad = cast_exactly(
        pyarrow.array([{"a": 1, "b": "x"}, {"a": 300, "b": "y"}]),
        pyarrow.struct([("b", text), ("a", i8), ("c", f64)]),
    )
    assert (found.to_pylist(), bad) == ([{"b": "x", "a": 1, "c": None}, None], [1])


def test_a_struct_does_not_lose_a_member() -> None:
    with pytest.raises(pyarrow.ArrowNotImplementedError):
        check_cast(pyarrow.struct([("a", i64), ("b", i64)]), pyarrow.struct([("a", i64)]))


def test_a_column_that_has_the_type_is_not_copied() -> None:
    column = pyarrow.array([1, 2])
    assert cast_exactly(column, i64)[0] is column


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.list_(pyarrow.string())], ids=str)
def test_a_text_that_is_not_utf_8_does_not_fit(kind: pyarrow.DataType) -> None:
    raw = pyarrow.array([b"a", b"\xff\x01", None, b"\xc3\xa9"])
    texts = pyarrow.Array.from_buffers(
        pyarrow.string(), len(raw), raw.buffers()
    )  # ClickHouse annotates geometries as text
    column = (
        texts if kind == pyarrow.string() else pyarrow.ListArray.from_arrays([0, 1, 2, 3, 4], texts)
    )
    found, bad = cast_exactly(column, kind)
    assert (bad, found[1].as_py()) == ([1], None)
    assert found[3].as_py() in ("é", ["é"])

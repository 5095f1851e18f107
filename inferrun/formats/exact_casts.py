"""Columns in other types without any change of a value. Pure; imports pyarrow.

pyarrow's safe casts are not exact (26.0: 1e300 becomes an infinite float, 2 true, a time a date),
and some are missing (from dictionaries of views, from 64-bit integers to small decimals) or wrong
(a list view becomes lists with the items of other rows). So a column is converted by its structure,
and the result is converted back and compared. What counts as the same value:

- numbers and booleans: equal numbers; true and false are 1 and 0.
- a decimal or a text as a floating-point number: the nearest one, if rounding it to the last digit
  of the text gives the text: 0.1 and 1e23 are numbers of 64 bits, 9007199254740993 and 1e-400 are
  not. The other way round: the shortest text of the number.
- times: the same moment, the same count of the unit as an integer, and the same text in ISO 8601. A
  date is its midnight. Without a zone, a time is one of UTC.
- lists and structs: the same items, and the same members in any order; those that only the other
  type has are null.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from math import isfinite
from typing import Final, TypeVar

import pyarrow
from pyarrow import compute
from pyarrow import types as kinds

from inferrun.formats.json_columns import is_any_list

V = TypeVar("V", Sequence[bytes], Sequence[object], pyarrow.Array)

_DIGITS: Final = {16: 3, 32: 6, 64: 15}
"""Decimal digits that a floating-point type keeps, of the numbers that are neither very small nor
very large."""

_MODERATE: Final = {16: (1e-4, 6e4), 32: (1e-37, 1e38), 64: (1e-307, 1e308)}
"""These numbers."""

_SMALL: Final = "[eE]-0*[1-9][0-9]{2}"
"""An exponent that no decimal has, which pyarrow (26.0) does not check."""

_UTC: Final = frozenset({None, "UTC", "Etc/UTC", "GMT", "Z", "+00:00"})


def cast_exactly(column: pyarrow.Array, kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
    """Return a column with another type, and the positions of the values that do not fit, which are
    null. None is rounded.

    A text of the same type does not fit if it is not UTF-8, as some writers' are; a result with it
    could not be read.
    """
    if column.type == kind:
        return (
            divided(column, lambda part: _validated(part, whole=column), kind)
            if _has_text(kind)
            else (column, [])
        )
    column = converted(column, normalized(column.type))  # once, not in each part
    return divided(column, lambda part: converted(part, kind), kind)


def check_cast(given: pyarrow.DataType, kind: pyarrow.DataType) -> None:
    """Raise ArrowNotImplementedError if no value of the one type is a value of the other."""
    converted(pyarrow.nulls(0, given), kind)


def divided(
    values: V, convert: Callable[[V], pyarrow.Array], kind: pyarrow.DataType
) -> tuple[pyarrow.Array, list[int]]:
    """Return converted values, and the positions of those that cannot be converted, which are
    null."""
    try:
        return convert(values), []
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError):
        if len(values) <= 1:
            return pyarrow.nulls(len(values), stored_type(kind)), list(range(len(values)))
    half = len(values) // 2
    first, faults = divided(values[:half], convert, kind)
    second, more = divided(values[half:], convert, kind)
    return pyarrow.concat_arrays([first, second]), faults + [half + at for at in more]


def with_parts(
    kind: pyarrow.DataType, change: Callable[[pyarrow.DataType], pyarrow.DataType]
) -> pyarrow.DataType:
    """Return a type whose single values, in the order of its columns in a file, have changed types.
    Views of lists become lists."""
    if kinds.is_fixed_size_list(kind):
        return pyarrow.list_(with_parts(kind.value_type, change), kind.list_size)
    if kinds.is_large_list(kind) or kinds.is_large_list_view(kind):
        return pyarrow.large_list(with_parts(kind.value_type, change))
    if is_any_list(kind):
        return pyarrow.list_(with_parts(kind.value_type, change))
    if kinds.is_map(kind):
        return pyarrow.map_(with_parts(kind.key_type, change), with_parts(kind.item_type, change))
    if kinds.is_struct(kind):
        return pyarrow.struct([one.with_type(with_parts(one.type, change)) for one in kind])
    return change(kind)


def parts_in(
    column: pyarrow.Array, is_wanted: Callable[[pyarrow.DataType], bool]
) -> Iterator[pyarrow.Array]:
    """Yield the columns of some types within a column, or the column itself."""
    if is_wanted(column.type):
        yield column
    elif kinds.is_map(column.type):
        yield from parts_in(column.keys, is_wanted)
        yield from parts_in(column.items, is_wanted)
    elif kinds.is_struct(column.type):
        for one in column.flatten():
            yield from parts_in(one, is_wanted)
    elif is_any_list(column.type):
        yield from parts_in(column.flatten(), is_wanted)


def stored_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type as files have it: JSON texts are strings."""
    return with_parts(kind, lambda one: pyarrow.string() if one == pyarrow.json_() else one)


def normalized(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return a type without the ways in which it is stored: dictionaries, views, runs and small
    decimals."""
    return with_parts(kind, _normalized_part)


def _normalized_part(kind: pyarrow.DataType) -> pyarrow.DataType:
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return normalized(kind.value_type)
    if kinds.is_decimal32(kind) or kinds.is_decimal64(kind):
        return pyarrow.decimal128(kind.precision, kind.scale)
    return {pyarrow.string_view(): pyarrow.string(), pyarrow.binary_view(): pyarrow.binary()}.get(
        kind, kind
    )


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _has_text(kind: pyarrow.DataType) -> bool:
    fields = (kind.field(at) for at in range(kind.num_fields))
    return (
        _is_text(kind) or kinds.is_string_view(kind) or any(_has_text(one.type) for one in fields)
    )


def _validated(part: pyarrow.Array, *, whole: pyarrow.Array) -> pyarrow.Array:
    if part is not whole:  # the items of other rows are validated with a slice of lists
        part = part.take(pyarrow.array(range(len(part)), pyarrow.int64()))
    part.validate(full=True)
    return part


def converted(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:  # noqa: PLR0911  a table of types
    """Return a column with another type. Raises ValueError or an error of pyarrow if a value is not
    one of it."""
    given = column.type
    if given == kind:
        return column
    if isinstance(column, pyarrow.ExtensionArray):
        return converted(column.storage, kind)
    if kinds.is_dictionary(given):
        return converted(converted(column.dictionary, normalized(given)).take(column.indices), kind)
    if kinds.is_run_end_encoded(given):
        ends, rows = column.run_ends.to_pylist(), range(column.offset, column.offset + len(column))
        places = [bisect_right(ends, row) for row in rows]
        return converted(
            converted(column.values, normalized(given)).take(pyarrow.array(places)), kind
        )
    if is_any_list(given) and is_any_list(kind):
        return _lists(column, kind)
    if kinds.is_map(given) and kinds.is_map(kind):
        offsets = column.offsets
        first, count = offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()
        keys, items = (
            converted(part.slice(first, count), wanted)
            for part, wanted in ((column.keys, kind.key_type), (column.items, kind.item_type))
        )
        return pyarrow.MapArray.from_arrays(
            compute.subtract(offsets, first), keys, items, type=kind, mask=column.is_null()
        )
    if kinds.is_struct(given) and kinds.is_struct(kind):
        if lost := set(given.names) - set(kind.names):
            raise pyarrow.ArrowNotImplementedError(f"the type has no member {min(lost)!r}")
        members = dict(zip(given.names, column.flatten(), strict=True))
        parts = [
            converted(members[one.name], one.type)
            if one.name in members
            else pyarrow.nulls(len(column), stored_type(one.type))
            for one in kind
        ]
        return pyarrow.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    return _single_values(column, kind)


def _lists(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return lists as lists of another type: built from their items and lengths, because pyarrow's
    cast (26.0) gives the lists of a view the items of other rows."""
    items = converted(column.flatten(), kind.value_type)
    offsets = [0, *accumulate(compute.fill_null(compute.list_value_length(column), 0).to_pylist())]
    is_large = kinds.is_large_list(kind)
    if not is_large and offsets[-1] >= 1 << 31:
        raise ValueError("a list is too long")
    built = pyarrow.large_list(kind.value_type) if is_large else pyarrow.list_(kind.value_type)
    found = (pyarrow.LargeListArray if is_large else pyarrow.ListArray).from_arrays(
        pyarrow.array(offsets, pyarrow.int64() if is_large else pyarrow.int32()),
        items,
        type=built,
        mask=column.is_null(),
    )
    return found if built == kind else found.cast(kind)  # of a fixed size, which pyarrow checks


def _single_values(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return values that have no parts with another type."""
    given = column.type
    if (plain := normalized(given)) != given:
        return converted(column.cast(plain), kind)
    if kinds.is_null(given):
        return column.cast(kind)
    if _is_text(given):
        return _of_texts(column, kind)
    if (between := _between(given, kind)) is not None:
        return _single_values(_single_values(column, between), kind)
    if kinds.is_floating(given) and kinds.is_decimal(kind):
        is_integral = compute.equal(compute.trunc(column), column)
        return compute.if_else(
            is_integral, column.cast(kind), column.cast(pyarrow.string()).cast(kind)
        )
    if kinds.is_timestamp(given) and kinds.is_timestamp(kind) and not _have_one_clock(given, kind):
        raise pyarrow.ArrowNotImplementedError("without a zone, a time is one of UTC")
    found = column.cast(kind, safe=not kinds.is_floating(kind))
    found.validate(full=True)  # the hours of times
    if _is_text(kind) and (kinds.is_time(given) or kinds.is_duration(given)):  # no cast back
        is_same = not compute.any(compute.starts_with(found, "<")).as_py()
    else:
        is_decimal = kinds.is_integer(kind) and kinds.is_decimal(given)  # as in `_between`
        back = found.cast(pyarrow.string()) if is_decimal else found
        is_same = _is_same(back.cast(given), column)
    if not is_same:
        raise ValueError("a value has no equal")
    return found


def _have_one_clock(first: pyarrow.DataType, second: pyarrow.DataType) -> bool:
    return (first.tz is None) == (second.tz is None) or {first.tz, second.tz} <= _UTC


def _between(given: pyarrow.DataType, kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """Return the type through which values become others, where pyarrow (26.0) has no cast, or none
    that is exact."""
    if kinds.is_float16(given) and not kinds.is_floating(kind):
        return pyarrow.float32()
    if kinds.is_boolean(given) and kinds.is_decimal(kind):
        return pyarrow.int8()
    if kinds.is_decimal(given) and kinds.is_boolean(kind):
        return pyarrow.int64()
    # one in five is not the nearest number
    is_rounded = kinds.is_decimal(given) and kinds.is_floating(kind)
    # unless all values of the type fit
    is_refused = kinds.is_integer(given) and kinds.is_decimal(kind)
    return pyarrow.string() if is_rounded or is_refused else None


def _is_same(first: pyarrow.Array, second: pyarrow.Array) -> bool:
    if first.equals(second):
        return True
    if not kinds.is_floating(first.type):
        return False
    first, second = first.cast(pyarrow.float64()), second.cast(pyarrow.float64())
    both_nan = compute.and_(compute.is_nan(first), compute.is_nan(second))
    return compute.all(compute.or_(compute.equal(first, second), both_nan)).as_py() is not False


def _of_texts(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return what texts say. pyarrow (26.0) reads only times, texts, bytes and booleans exactly."""
    if (
        kinds.is_decimal(kind)
        and compute.any(compute.match_substring_regex(column, _SMALL)).as_py()
    ):
        raise ValueError("a text has an exponent of three digits")
    if kinds.is_time(kind):
        column = compute.binary_join_element_wise("1970-01-01T", column, "").cast(
            pyarrow.timestamp(kind.unit)
        )
    found = column.cast(kind)
    # pyarrow (26.0) drops the highest bits of a number that is too large for the scale
    if kinds.is_decimal(kind):
        numbers, expected = found.cast(pyarrow.float64()), column.cast(pyarrow.float64())
        distance = compute.abs(compute.subtract(numbers, expected))
        if compute.any(
            compute.greater(distance, compute.multiply(compute.abs(expected), 1e-6))
        ).as_py():
            raise ValueError("a number has more digits")
    if (
        kinds.is_integer(kind)
        and compute.any(compute.match_substring(column, "x", ignore_case=True)).as_py()
    ):
        raise ValueError("a text is no decimal number")
    if kinds.is_floating(kind):
        numbers = found.cast(pyarrow.float64())
        low, high = _MODERATE[kind.bit_width]
        size = compute.abs(numbers)
        is_moderate = compute.and_(compute.greater(size, low), compute.less(size, high))
        is_short = compute.less_equal(compute.binary_length(column), _DIGITS[kind.bit_width])
        is_shortest = compute.equal(found.cast(pyarrow.string()), column)
        others = compute.invert(compute.or_(compute.and_(is_moderate, is_short), is_shortest))
        for text, number in zip(
            column.filter(others).to_pylist(), numbers.filter(others).to_pylist(), strict=True
        ):
            if text is not None and not is_nearest(number, text):
                raise ValueError("a number has more digits")
    return found


def is_nearest(number: float, text: str) -> bool:
    """Whether a text has no other digits than the number to which it was rounded."""
    if number == 0:
        return not any(one in "123456789" for one in text.lower().partition("e")[0])
    if not isfinite(number):
        return not any(one.isdigit() for one in text)
    if repr(number) == text:
        return True
    exact = Decimal(text)
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    last = Fraction(10) ** (exact.adjusted() + 1 - len(digits))
    return 2 * abs(Fraction(exact) - Fraction(number)) <= last

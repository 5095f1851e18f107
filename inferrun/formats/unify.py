"""One schema for all files of an input, by declared rules: no value of a file is lost or rounded.
Pure; imports pyarrow.

Two types become one that holds the values of both exactly. Where there is none, the files are in
conflict: a number and a text, an integer of 64 bits and a floating number, a time with a zone and
one without.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow
from pyarrow import types as kinds

from inferrun.formats.columns import INDEX, PARTITION, UNREAD, check_types, is_list, needed_columns
from inferrun.formats.exact_casts import check_cast, normalized
from inferrun.formats.named_columns import check_copied, check_names
from inferrun.plugins import ColumnSelection, InputError, InputFile
from inferrun.suggestions import did_you_mean

_UNITS: Final = ("s", "ms", "us", "ns")
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
"""The decimal digits of a signed integer; an unsigned one of 64 bits has one more."""

_MANTISSA: Final = {16: 11, 32: 24, 64: 53}
"""The bits of the largest integer up to which a floating number has all."""

_SIZES: Final = {"uint": (8, 16, 32, 64), "int": (8, 16, 32, 64), "float": (16, 32, 64)}
_NUMBERS: Final = [
    pyarrow.type_for_alias(f"{name}{size}") for name, sizes in _SIZES.items() for size in sizes
]
"""From the narrowest to the widest of each kind."""


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """What the config says about the columns of an input."""

    types: Mapping[str, pyarrow.DataType]
    """Types that columns get, whatever the files have."""

    field: str = "input"
    """Where it says so."""

    may_miss: bool = False
    """Whether a column that a file does not have is null in its rows."""


def schema_of(
    files: Iterable[InputFile],
    read: Callable[[InputFile], pyarrow.Schema],
    columns: ColumnSelection,
    rules: SchemaRules,
) -> pyarrow.Schema:
    """Return the columns that are used of files; `read` returns all of a file. Raises
    InputError."""
    first: tuple[InputFile, pyarrow.Schema] | None = None
    unknown = set(rules.types)

    def schemas() -> Iterator[tuple[str, pyarrow.Schema]]:
        nonlocal first
        for file in files:
            schema = read(file)
            first = first or (file, schema)
            unknown.difference_update(schema.names)
            if twice := next((name for name in schema.names if schema.names.count(name) > 1), None):
                text = f"{file.name} has several columns {twice!r}; each needs a name of its own"
                raise InputError(text, is_retryable=False)
            if not rules.may_miss:
                check_names(schema.names, file, columns)
            check_copied(columns.copied_of(schema.names), file)
            needed = pyarrow.schema(
                [schema.field(name) for name in needed_columns(schema, columns)]
            )
            if unread := next((one for one in needed if UNREAD in (one.metadata or {})), None):
                text = f"{file.name}: column {unread.name!r} is {unread.metadata[UNREAD].decode()}, which is not read"
                raise InputError(
                    f"{text}; store it as text or numbers, or do not use it", is_retryable=False
                )
            yield file.name, needed

    found = unified(schemas(), rules)
    if first:
        if unknown:
            text = f"{rules.field}.types.{min(unknown)}: {first[0].name} has no such column, and no other file does"
            raise InputError(
                f"{text}{did_you_mean(min(unknown), first[1].names)}", is_retryable=False
            )
        if set(columns.named) - set(found.names):
            check_names(first[1].names, first[0], columns)
        check_types(found, columns, where=first[0].name)
    return found


def unified(schemas: Iterable[tuple[str, pyarrow.Schema]], rules: SchemaRules) -> pyarrow.Schema:
    """Return the columns of files, each given by its name and its columns, in the order of the
    first file.

    Raises InputError for a conflict, with the file, the column, and the file that differs.
    """
    found: dict[str, pyarrow.DataType] = {}
    origin: dict[str, str] = {}
    marks: dict[str, Mapping[bytes, bytes]] = {}
    files: list[str] = []
    for name, schema in schemas:
        missing = next((one for one in found if schema.get_field_index(one) < 0), "")
        added = next((one.name for one in schema if one.name not in found), "") if files else ""
        if not rules.may_miss and (missing or added):
            lacking, having = (name, origin[missing]) if missing else (files[0], name)
            text = f'{lacking} has no column {missing or added!r}, which {having} has; set missingColumns: "Null", or add it'
            raise InputError(text, is_retryable=False)
        for given in schema:
            if mark := {
                key: value
                for key, value in (given.metadata or {}).items()
                if key in (PARTITION, INDEX)
            }:
                marks[given.name] = mark
            _add(given, found, origin, file=name, rules=rules)
        files.append(name)
    return pyarrow.schema(
        [pyarrow.field(name, kind, metadata=marks.get(name)) for name, kind in found.items()]
    )


def _add(
    given: pyarrow.Field,
    found: dict[str, pyarrow.DataType],
    origin: dict[str, str],
    *,
    file: str,
    rules: SchemaRules,
) -> None:
    """Combine a column of a file with that of the files before it."""
    name = given.name
    origin.setdefault(name, file)
    if wanted := rules.types.get(name):
        try:
            check_cast(given.type, wanted)
        except pyarrow.ArrowException as error:
            text = f"{file}: column {name!r} has type {given.type}, which cannot become {wanted}; change types.{name}"
            raise InputError(text, is_retryable=False) from error
        found[name] = wanted
        return
    before = found.get(name)
    kind = common_type(before, given.type) if before else normalized(given.type)
    if kind is None:
        raise InputError(
            f"{file}: column {name!r} has type {given.type}, the files before have {before} (first: {origin[name]}); set "
            f"types.{name} to the type that it shall have, or write all files with the same type",
            is_retryable=False,
        )
    found[name] = kind


def common_type(first: pyarrow.DataType, second: pyarrow.DataType) -> pyarrow.DataType | None:  # noqa: PLR0911  a table of types
    """Return the type that holds the values of both exactly; None if there is none."""
    first, second = normalized(first), normalized(second)
    if first == second or kinds.is_null(second):
        return first
    if kinds.is_null(first):
        return second
    if _is_number(first) and _is_number(second):
        return _number(first, second)
    for is_kind, narrow, wide in _WIDTHS:
        if is_kind(first) and is_kind(second):
            return wide() if wide() in (first, second) else narrow()
    if kinds.is_date(first) and kinds.is_date(second):
        return pyarrow.date32()
    if kinds.is_timestamp(first) and kinds.is_timestamp(second):
        zones = {first.tz, second.tz}
        unit = _finest(first, second)
        return (
            None
            if None in zones and len(zones) > 1
            else pyarrow.timestamp(unit, zones.pop() if len(zones) == 1 else "UTC")
        )
    if kinds.is_time(first) and kinds.is_time(second):
        unit = _finest(first, second)
        return pyarrow.time32(unit) if unit in ("s", "ms") else pyarrow.time64(unit)
    if kinds.is_duration(first) and kinds.is_duration(second):
        return pyarrow.duration(_finest(first, second))
    if is_list(first) and is_list(second):
        return _list(first, second)
    if kinds.is_struct(first) and kinds.is_struct(second):
        return _struct(first, second)
    if kinds.is_map(first) and kinds.is_map(second):
        key = common_type(first.key_type, second.key_type)
        item = common_type(first.item_type, second.item_type)
        return pyarrow.map_(key, item) if key and item else None
    return None


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _is_bytes(kind: pyarrow.DataType) -> bool:
    return bool(
        kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind)
    )


_WIDTHS: Final = (
    (_is_text, pyarrow.string, pyarrow.large_string),
    (_is_bytes, pyarrow.binary, pyarrow.large_binary),
)


def _is_number(kind: pyarrow.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _number(first: pyarrow.DataType, second: pyarrow.DataType) -> pyarrow.DataType | None:
    if kinds.is_decimal(first) or kinds.is_decimal(second):
        return _decimal(first, second)
    return next((wide for wide in _NUMBERS if _holds(wide, first) and _holds(wide, second)), None)


def _holds(wide: pyarrow.DataType, one: pyarrow.DataType) -> bool:
    """Whether a type of numbers has all values of another one."""
    if kinds.is_floating(wide):
        return bool(
            one.bit_width
            <= (wide.bit_width if kinds.is_floating(one) else _MANTISSA[wide.bit_width])
        )
    is_signed = kinds.is_signed_integer(one)
    if kinds.is_signed_integer(wide) and not is_signed:
        return kinds.is_integer(one) and bool(one.bit_width < wide.bit_width)
    return (
        is_signed == kinds.is_signed_integer(wide)
        and kinds.is_integer(one)
        and bool(one.bit_width <= wide.bit_width)
    )


def _decimal(first: pyarrow.DataType, second: pyarrow.DataType) -> pyarrow.DataType | None:
    sizes: list[tuple[int, int]] = []
    for one in (first, second):
        if kinds.is_floating(one):
            return None
        if kinds.is_decimal(one):
            sizes.append((one.precision - one.scale, one.scale))
        else:
            sizes.append((_DIGITS[one.bit_width] + (one == pyarrow.uint64()), 0))
    scale = max(after for _, after in sizes)
    digits = max(before for before, _ in sizes) + scale
    if digits > 76:
        return None
    is_wide = digits > 38 or any(kinds.is_decimal256(one) for one in (first, second))
    return (pyarrow.decimal256 if is_wide else pyarrow.decimal128)(digits, scale)


def _finest(first: pyarrow.DataType, second: pyarrow.DataType) -> str:
    return _UNITS[max(_UNITS.index(first.unit), _UNITS.index(second.unit))]


def _list(first: pyarrow.DataType, second: pyarrow.DataType) -> pyarrow.DataType | None:
    item = common_type(first.value_type, second.value_type)
    if item is None:
        return None
    if (
        kinds.is_fixed_size_list(first)
        and kinds.is_fixed_size_list(second)
        and first.list_size == second.list_size
    ):
        return pyarrow.list_(item, first.list_size)
    is_large = kinds.is_large_list(first) or kinds.is_large_list(second)
    return pyarrow.large_list(item) if is_large else pyarrow.list_(item)


def _struct(first: pyarrow.DataType, second: pyarrow.DataType) -> pyarrow.DataType | None:
    if {one.name for one in first} != {one.name for one in second}:
        return None
    pairs = [(one, second.field(one.name)) for one in first]
    types = [common_type(one.type, other.type) for one, other in pairs]
    if None in types:
        return None
    return pyarrow.struct(
        pyarrow.field(one.name, kind, nullable=one.nullable or other.nullable)
        for (one, other), kind in zip(pairs, types, strict=True)
    )

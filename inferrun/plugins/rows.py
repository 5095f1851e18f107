"""Validates decoded JSON: rows of numbers and nulls with equal widths. Pure.

Valid rows are checked by C loops over all of them, and only others row by row.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final, cast

__all__ = ["NUMBERS", "RowFault", "kind_of", "width_of"]

NUMBERS: Final = frozenset({int, float, type(None)})
"""The types of numbers and nulls. bool is a subclass of int, so types are compared exactly."""


class RowFault(ValueError):
    """The first invalid row: its position in the batch, from 0, and a description without the row's
    name."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(f"row {row} {text}")
        self.row = row
        self.text = text


def width_of(rows: Sequence[object]) -> int:
    """Return the width that all rows share. Raises RowFault for the first invalid or differing
    row."""
    if set(map(type, rows)) == {list}:
        lists = cast("Sequence[list[object]]", rows)
        widths = set(map(len, lists))
        if (
            len(widths) == 1
            and 0 not in widths
            and set(map(type, chain.from_iterable(lists))) <= NUMBERS
        ):
            return widths.pop()
    width = 0
    for index, row in enumerate(rows):
        text = _fault_of(row)
        length = len(row) if isinstance(row, list) else 0
        width = width or length
        if text or length != width:
            raise RowFault(index, text or f"has {length} numbers, previous rows have {width}")
    raise AssertionError("all rows are valid")


def _fault_of(row: object) -> str:
    """Describe why a row is not a list of numbers and nulls; empty if it is one."""
    if not isinstance(row, list):
        return f"must be an array of numbers, got {kind_of(row)}"
    if not row:
        return "must be an array of numbers, got an empty array"
    for position, value in enumerate(row):
        if type(value) not in NUMBERS:
            return f"contains {kind_of(value)} at position {position}; only numbers and null are allowed"
    return ""


def kind_of(value: object) -> str:
    """Return the type of a value, never the value: it is part of a record."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
    return "a number"

"""Checks that decoded JSON is what a model takes: rows of numbers, all of one width. Pure.

The good case runs in C loops over whole batches; only a bad batch is looked at row by row, to name its first fault.
"""

from collections.abc import Sequence
from itertools import chain
from typing import cast

_NUMBERS = {int, float}  # bool is a subclass of int, so types are compared exactly


class RowFault(ValueError):
    """What is wrong with the first bad row: its place in the batch, from 0, and a text that follows the row's name."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(f"row {row} {text}")
        self.row = row
        self.text = text


def width_of(rows: Sequence[object]) -> int:
    """The width that all rows share; raises RowFault for the first row that is not like the others or no row at all."""
    if set(map(type, rows)) == {list}:
        lists = cast("Sequence[list[object]]", rows)
        widths = set(map(len, lists))
        if len(widths) == 1 and 0 not in widths and set(map(type, chain.from_iterable(lists))) <= _NUMBERS:
            return widths.pop()
    raise _first_fault(rows)


def _first_fault(rows: Sequence[object]) -> RowFault:
    width = 0
    for index, row in enumerate(rows):
        text = _fault_of(row)
        length = len(row) if isinstance(row, list) else 0
        width = width or length
        if text or length != width:
            return RowFault(index, text or f"has {length} numbers, the ones before have {width}")
    raise AssertionError("every row is good")


def _fault_of(row: object) -> str:
    """What is wrong with a row that is not a list of numbers, or an empty text."""
    if not isinstance(row, list):
        return f"is {_kind(row)}, an array of numbers is required"
    if not row:
        return "is an empty array, an array of numbers is required"
    for position, value in enumerate(row):
        if type(value) not in _NUMBERS:
            return f"holds {_kind(value)} at position {position}, only numbers are allowed"
    return ""


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value[:40]!r}"
        case list():
            return "an array"
        case dict():
            return "an object"
    return f"the number {value!r}"

"""Checks that decoded JSON is what a model takes: rows of numbers, all of one width. Pure.

The good case runs in C loops over whole batches; only a bad batch is looked at row by row, to name its first fault.
"""

from collections.abc import Sequence
from itertools import chain

from runner.values import Row

_NUMBERS = {int, float}  # bool is a subclass of int, so types are compared exactly


def width_of(rows: Sequence[object]) -> int:
    """The width that all rows share; raises ValueError that says which row is wrong, counted from 0, and how."""
    if set(map(type, rows)) <= {list}:
        lists: Sequence[list[object]] = rows  # type: ignore[assignment]  # checked in the line above
        widths = set(map(len, lists))
        if len(widths) == 1 and 0 not in widths and set(map(type, chain.from_iterable(lists))) <= _NUMBERS:
            return widths.pop()
    raise ValueError(_first_fault(rows))


def fault_of(row: object) -> str:
    """What is wrong with a row that is not a list of numbers, or an empty text."""
    if not isinstance(row, list):
        return f"is {_kind(row)}, an array of numbers is required"
    if not row:
        return "is an empty array, an array of numbers is required"
    for position, value in enumerate(row):
        if type(value) not in _NUMBERS:
            return f"holds {_kind(value)} at position {position}, only numbers are allowed"
    return ""


def _first_fault(rows: Sequence[object]) -> str:
    for index, row in enumerate(rows):
        if fault := fault_of(row):
            return f"row {index} {fault}"
    first: Row = rows[0]  # type: ignore[assignment]  # every row passed fault_of
    for index, row in enumerate(rows):
        if isinstance(row, list) and len(row) != len(first):
            return f"row {index} has {len(row)} numbers, row 0 has {len(first)}"
    return "no rows"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return {"list": "an array", "dict": "an object"}.get(type(value).__name__, f"the number {value!r}")

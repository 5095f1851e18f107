"""The forms of records without columns: single values, and arrays with their dimensions. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, cast

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.plugins import Json
from inferrun.plugins.rows import NUMBERS, kind_of


@dataclass(frozen=True, slots=True)
class Form:
    """What a record is made of. The records of a request must have values of the same kind."""

    kind: str
    """The kind of each value: `number`, which may be missing, `string` (or bytes as an object with
    their base64), `boolean`, `object`."""

    dimensions: tuple[int, ...] = ()

    def __str__(self) -> str:
        if len(self.dimensions) == 1:
            return f"{self.dimensions[0]} {self.kind}s"
        return (
            f"an array {list(self.dimensions)} of {self.kind}s"
            if self.dimensions
            else kind_of(_EXAMPLES[self.kind])
        )


_EXAMPLES: Final[dict[str, Json]] = {"number": 0, "string": "", "boolean": False, "object": {}}


def other_kinds(forms: Mapping[int, Form]) -> dict[int, str]:
    """Return which records have values of another kind than most others, by their position, without
    the record's name."""
    kinds = Counter(one.kind for one in forms.values())
    usual = next(
        (one for one in forms.values() if one.kind == max(kinds, key=kinds.__getitem__)), None
    )
    return {
        at: f"has {one}, others have {usual}"
        for at, one in forms.items()
        if usual and one.kind != usual.kind
    }


_DEPTH: Final = 32
"""Dimensions of a record. Python and orjson can follow some hundreds."""


def form_of(record: Json, *, depth: int = 0) -> Form:
    """Return the form of a record without columns. Raises ValueError with what is wrong with it,
    without the record's name."""
    match record:
        case list() if depth == _DEPTH:
            raise ValueError("is nested too deeply")
        case list() if dimensions := _dimensions_of_numbers(record):
            return Form("number", dimensions)
        case list():
            return _form_of_array(record, depth=depth)
        case str():
            return Form("string")
        case bool():
            return Form("boolean")
        case int() | float():
            return Form("number")
        case dict() if bytes_in(record) is not None:
            return Form("string")
    raise ValueError(f"must be a value or an array, got {kind_of(record)}")


def _dimensions_of_numbers(values: list[Json]) -> tuple[int, ...]:
    """Return the dimensions of an array of numbers; empty if it is something else, whose fault is
    found value by value."""
    dimensions = [len(values)]
    while set(map(type, values)) == {list}:
        lists = cast("list[list[Json]]", values)
        dimensions += (sizes := set(map(len, lists)))
        if len(sizes) > 1:
            return ()
        values = list(chain.from_iterable(lists))
    is_array = bool(values) and set(map(type, values)) <= NUMBERS and len(dimensions) <= _DEPTH
    return tuple(dimensions) if is_array else ()


def _form_of_array(values: list[Json], *, depth: int) -> Form:
    if not values:
        raise ValueError("must have values, got an empty array")
    if not NUMBERS.isdisjoint(map(type, values)):
        at = next(at for at, value in enumerate(values) if type(value) not in NUMBERS)
        raise ValueError(
            f"contains {kind_of(values[at])} at position {at}; only numbers and null are allowed"
        )
    forms = {form_of(value, depth=depth + 1) for value in values}
    if len(forms) > 1:
        raise ValueError("has arrays of different lengths or kinds within an array")
    (one,) = forms
    return Form(one.kind, (len(values), *one.dimensions))

"""Outputs of numbers are decoded all at once, with the results that they have one by one."""

import json
import math
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.plugins import Json
from runner.protocols.v2.tensors import decode, results_of
from tests.unit.runner.batches import decoded

NUMBERS: Final = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.sampled_from([-0.0, 0, 1e300, 5e-324])
OTHERS: Final = st.sampled_from([None, True, False, "a", "1,2", "[", 1 << 70, {"a": math.nan}, [1], [math.inf]])


def reference(data: list[Json], *, shape: list[int] | None, records: int) -> object:
    """Value by value: an error for each that is null or not finite; a text of what violates the protocol."""
    values = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in data]
    try:
        return decoded(results_of(values, shape or [], records=records))
    except ValueError as error:
        return str(error)


def found_in(data: list[Json], *, shape: list[int] | None, records: int) -> object:
    output: dict[str, Any] = {"name": "predict", "data": data} | ({"shape": shape} if shape else {})  # Any: JSON
    try:
        return decoded(decode(json.dumps({"outputs": [output]}).encode(), records=records))
    except ValueError as error:
        return str(error)


@settings(max_examples=200)
@given(st.lists(NUMBERS | OTHERS, min_size=1, max_size=8) | st.lists(NUMBERS, min_size=1, max_size=50), st.booleans())
def test_predictions_are_those_of_each_value(data: list[Json], has_shape: bool) -> None:  # noqa: FBT001
    data = [float(one) if type(one) is int and one >= 1 << 64 else one for one in data]
    if len({isinstance(one, list) for one in data}) > 1:
        return  # values and arrays at the same level have a test of their own
    shape = [len(data)] if has_shape else None
    assert repr(found_in(data, shape=shape, records=len(data))) == repr(reference(data, shape=shape, records=len(data)))


@given(st.lists(NUMBERS, min_size=1, max_size=8), st.integers(1, 4))
def test_the_number_of_predictions_must_be_that_of_the_records(data: list[Json], more: int) -> None:
    for records in (len(data) + more, max(1, len(data) - more)):
        for shape in ([len(data)], [len(data), 1], None):
            assert repr(found_in(data, shape=shape, records=records)) == repr(
                reference(data, shape=shape, records=records)
            )


@settings(max_examples=300)
@given(
    st.lists(NUMBERS | st.sampled_from([None, True, "a"]), min_size=1, max_size=12)
    | st.lists(NUMBERS, min_size=4, max_size=12),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([(), (1,), (1, 1)]),
    st.booleans(),
)
def test_arrays_are_those_of_each_value(
    data: list[Json],
    records: int,
    width: int,
    ones: tuple[int, ...],
    is_nested: bool,  # noqa: FBT001
) -> None:
    data = [float(one) if type(one) is int and one >= 1 << 64 else one for one in data]
    shape = [records, width, *ones]
    nested: list[Json] = [data[at : at + width] for at in range(0, len(data), width)]
    found = found_in(nested if is_nested else data, shape=shape, records=records)
    expected = reference(data, shape=shape, records=records)
    if isinstance(expected, str):
        assert isinstance(found, str)
    else:
        assert repr(found) == repr(expected)

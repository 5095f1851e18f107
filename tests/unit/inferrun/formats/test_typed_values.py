"""Values as columns of a given type: what fits is exact, and what does not is found."""

import json

import orjson
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.formats.result_schema import parse_type
from inferrun.formats.typed_values import array_of_column, array_of_texts


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int8", [1, -128], [300, 1.5, "1", True, [1], {}]),
        ("uint64", [2**64 - 1], [-1, 2**64]),
        ("float", [1.5], [1e40, "a"]),
        ("double", [2**53, 1e308, -0.5], [2**53 + 1, "1"]),
        ("bool", [True, False], [1, "true"]),
        ("string", ["a", "", "\n", "é"], [1, ["a"]]),
        ("binary", ["a", {"b64": "/wA="}], [1, {"b64": "?"}]),
        ("decimal(5,2)", ["1.50", 2.5], [1.555, 1000]),
        ("date32", ["2026-11-24"], [5, "yesterday"]),
        ("timestamp[us, UTC]", ["2026-11-24T01:02:03Z"], ["x"]),
        ("time64[us]", ["01:02:03"], ["x", 5]),
        ("list<double>", [[1, 2.5], [], [None]], [[2**53 + 1], ["a"], 1]),
        ("float[2]", [[1, 2]], [[1], [1, 2, 3], 1]),
        ("struct<a: int32, b: string>", [{"a": 1, "b": "x"}, {"a": 1}], [{"a": "x"}, {"c": 1}, 1]),
        ("struct<a: binary, b: json>", [{"a": {"b64": "/wA="}, "b": [1]}], [{"c": 1}]),
        ("json", [1, "a", {"b": [1]}], []),
    ],
)
def test_what_does_not_fit_is_found(kind: str, good: list[object], bad: list[object]) -> None:
    values = [*good, None, *bad, *good]
    column, faults = array_of_texts([json.dumps(one).encode() for one in values], parse_type(kind))
    assert faults == list(range(len(good) + 1, len(good) + 1 + len(bad)))
    assert len(column) == len(values)
    assert column.null_count == 1 + len(bad)
    assert column[: len(good)].to_pylist() == column[-len(good) :].to_pylist()


@settings(max_examples=100)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)))
)
def test_a_number_is_kept_exactly_or_is_a_fault(values: list[int | float | None]) -> None:
    for kind in ("int64", "double"):
        column, faults = array_of_texts([orjson.dumps(one) for one in values], parse_type(kind))
        for at, (given_, found) in enumerate(zip(values, column.to_pylist(), strict=True)):
            assert found is None if at in faults else found == given_


def test_a_column_of_another_type_is_converted_if_nothing_is_lost() -> None:
    column, faults = array_of_column(pyarrow.array([1, 300, None]), pyarrow.int8())
    assert (column.to_pylist(), faults) == ([1, None, None], [1])
    column, faults = array_of_column(pyarrow.array(["a", "b"]).dictionary_encode(), pyarrow.string())
    assert (column.to_pylist(), faults) == (["a", "b"], [])

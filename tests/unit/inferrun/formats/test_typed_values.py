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
        ("float", [1.5, 0.1, 0.10000000149011612, 1e-05], [1e40, "a", 0.123456789, 16777217]),
        ("float16", [1.5, 0.1], [70000, 0.12345]),
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


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (
            "double",
            ["1e-05", "1.50", "1E5", "1.000000000000000056e-01", "1e23"],
            ["123456789012345678.25", "1e-400", "1e400"],
        ),
        ("float", ["0.1", "0.10000000149011612"], ["0.123456789", "1e-60"]),
        ("list<float>", ["[0.1, 1e-05]"], ["[0.1, 0.123456789]"]),
        (
            "struct<a: string, b: double>",
            [r'{"a": "\u00e9", "b": 0.5}'],
            [r'{"a": "\u00e9", "b": 123456789012345678.25}'],
        ),
        (
            "struct<a: int64, b: binary>",
            ['{"a": 9007199254740993, "b": "x"}'],
            ['{"a": 1.5, "b": "x"}'],
        ),
        (
            "struct<a: int64, b: double>",
            ['{"a": 9007199254740993, "b": 1e300}'],
            ['{"a": 1, "b": 9007199254740993}'],
        ),
        (
            "struct<a: json, b: double>",
            ['{"a": 123456789012345678.25, "b": 1}'],
            ['{"a": 1, "b": 1e400}'],
        ),
        ("decimal(38, 38)", ["0.1", '"1E-38"'], ["256", "1e-39"]),
        ("decimal(5, 2)", ["1.2500", "1e2"], ["1.255", "1000", "true"]),
        (
            "time64[us]",
            ['"01:02:03.123456"', '"23:59:59.999999"'],
            ['"01:02:03.123456789"', '"24:00:01"'],
        ),
        ("time32[s]", ['"01:02:03"'], ['"01:02:03.5"']),
        (
            "timestamp[us]",
            ['"9999-12-31T23:59:59.999999"', '"0001-01-01"'],
            ['"2026-01-02T03:04:05.123456789"', "5"],
        ),
        ("timestamp[ns]", ['"2026-01-02T03:04:05.123456789"'], ['"9999-12-31"']),
        (
            "struct<a: timestamp[ns], b: binary>",
            ['{"a": "2026-01-02T03:04:05.123456789"}'],
            ['{"a": "9999-12-31"}'],
        ),
    ],
)
def test_no_digit_of_a_json_number_or_time_is_lost(
    kind: str, good: list[str], bad: list[str]
) -> None:
    column, faults = array_of_texts([one.encode() for one in [*good, *bad]], parse_type(kind))
    assert faults == list(range(len(good), len(good) + len(bad)))
    assert column.null_count == len(bad)


@settings(max_examples=100)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False, allow_infinity=False),
        )
    )
)
def test_a_number_is_kept_exactly_or_is_a_fault(values: list[int | float | None]) -> None:
    for kind in ("int64", "double"):
        column, faults = array_of_texts([orjson.dumps(one) for one in values], parse_type(kind))
        for at, (given_, found) in enumerate(zip(values, column.to_pylist(), strict=True)):
            assert found is None if at in faults else found == given_


def test_a_column_of_another_type_is_converted_if_nothing_is_lost() -> None:
    column, faults = array_of_column(pyarrow.array([1, 300, None]), pyarrow.int8())
    assert (column.to_pylist(), faults) == ([1, None, None], [1])
    column, faults = array_of_column(
        pyarrow.array(["a", "b"]).dictionary_encode(), pyarrow.string()
    )
    assert (column.to_pylist(), faults) == (["a", "b"], [])

"""JSON texts of values."""

import math
import tracemalloc

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.plugins import Json
from runner.json_text import number_row_texts, number_texts, texts_of

ROWS: dict[str, list[Json]] = {
    "none": [],
    "numbers": [1, 2.5, -3e-300],
    "rows": [[1, 2.5], [-3, 0]],
    "one value": [[1], [2]],
    "uneven": [[1, 2], [3]],
    "empty rows": [[], [1], []],
    "only empty": [[], []],
    "nulls": [[None, 1], [True, 2]],
    "strings": [["],[", "a"], ["],[", "b"]],
    "commas": [",", ",", "a", ",", ""],
    "quotes": ['x",', '","', "\\", '"'],
    "nested": [[[1], [2]], [[3], [4]]],
    "objects": [{"a": [1]}, [1]],
    "mixed": [1, None, [2]],
    "many": [[index, index + 0.5] for index in range(1000)],
}


@pytest.mark.parametrize("values", ROWS.values(), ids=ROWS)
def test_each_value_has_its_text(values: list[Json]) -> None:
    texts = texts_of(values)
    assert [orjson.loads(text) for text in texts] == values
    assert all(type(text) is bytes for text in texts)


@given(
    st.lists(
        st.lists(st.integers(0, 9) | st.sampled_from([None, True, 0.5, math.nan, "a", [1], {}]), max_size=3), min_size=1
    )
)
def test_rows_of_numbers_are_recognised_only_if_all_are(rows: list[list[Json]]) -> None:
    for width in range(4):
        texts = number_row_texts(rows, width=width)
        is_of_numbers = width > 0 and all(
            len(row) == width
            and all(isinstance(one, (int, float)) and one is not True and math.isfinite(one) for one in row)
            for row in rows
        )
        assert (list(texts) if texts is not None else None) == (
            list(map(orjson.dumps, rows)) if is_of_numbers else None
        )


@given(
    st.lists(st.integers() | st.floats() | st.sampled_from([None, True, "a", [1], {}, 1 << 64]), min_size=1, max_size=4)
)
def test_numbers_are_recognised_only_if_all_are(values: list[Json]) -> None:
    texts = number_texts(values)
    is_of_numbers = all(
        (type(one) is int and -(1 << 63) <= one < 1 << 64) or (type(one) is float and math.isfinite(one))
        for one in values
    )
    assert (list(texts) if texts is not None else None) == (list(map(orjson.dumps, values)) if is_of_numbers else None)


def test_many_rows_of_numbers_are_recognised_in_pieces() -> None:
    rows: list[Json] = [[at, at + 0.5] for at in range(100_000)]
    texts = number_row_texts(rows, width=2)
    assert texts is not None
    assert list(texts) == list(map(orjson.dumps, rows))
    assert number_row_texts([*rows, [1]], width=2) is None


@settings(max_examples=1000)
@given(st.lists(st.text(max_size=6) | st.sampled_from(['x",', '","', "", "\\", "\n", ",", '"']), min_size=1))
def test_strings_have_their_texts(values: list[str]) -> None:
    assert list(texts_of(values)) == list(map(orjson.dumps, values))


def _nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


WITHOUT_TEXT: dict[str, Json] = {
    "an integer of more than 64 bits": 1 << 64,
    "a surrogate": "\ud800",
    "too deep": _nested(300),
}


@pytest.mark.parametrize("value", WITHOUT_TEXT.values(), ids=WITHOUT_TEXT)
def test_a_value_without_a_text_is_an_error(value: Json) -> None:
    for values in ([value], [[value]], [{"a": value}]):
        with pytest.raises(ValueError, match="a value cannot be written as JSON"):
            texts_of(values)


@pytest.mark.parametrize(
    "value", [[0.123456, 1.5, 2.5], ["a text", "another one"], {"a": [1, 2, 3]}, [[1.5], [2.5]]], ids=str
)
def test_a_text_takes_no_more_memory_than_its_length(value: Json) -> None:
    values = [value] * 2000
    tracemalloc.start()
    try:
        texts = texts_of(values)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held <= sum(len(text) + 64 for text in texts)

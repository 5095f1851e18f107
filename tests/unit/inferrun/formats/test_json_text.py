"""JSON texts of values."""

import tracemalloc

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.formats.json_text import numbers_in, texts_of
from inferrun.plugins import Json

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


@settings(max_examples=1000)
@given(
    st.lists(
        st.text(max_size=6) | st.sampled_from(['x",', '","', "", "\\", "\n", ",", '"']), min_size=1
    )
)
def test_strings_have_their_texts(values: list[str]) -> None:
    assert list(texts_of(values)) == list(map(orjson.dumps, values))


NUMBERS = (
    st.none()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1)
    )
)
def test_rows_of_numbers_are_decoded_at_once(rows: list[list[Json]]) -> None:
    flat, width = [value for row in rows for value in row], len(rows[0])
    assert numbers_in(list(map(orjson.dumps, rows))) == (orjson.dumps(flat), flat, width)


ROW_TEXTS = st.sampled_from(
    ["[1]", "[2,3]", "[null ,-1e5]", "[1, 2]", "1[,2]", "[1,]", "[,1]", "[1 2]", "[]", "[1],[2]"]
)


@settings(max_examples=1000)
@given(
    st.lists(
        ROW_TEXTS | st.text("[],1 ", min_size=1, max_size=5).map(str.strip), min_size=1, max_size=3
    )
)
def test_only_valid_rows_of_the_same_width_are_decoded_at_once(texts: list[str]) -> None:
    if found := numbers_in(list(map(str.encode, texts))):
        rows = list(map(orjson.loads, texts))
        assert found[1] == [value for row in rows for value in row]
        assert {found[2]} == set(map(len, rows))


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
    "value",
    [[0.123456, 1.5, 2.5], ["a text", "another one"], {"a": [1, 2, 3]}, [[1.5], [2.5]]],
    ids=str,
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

"""JSON texts of values."""

import tracemalloc

import pytest

from inferrun.plugins import Json
from runner.formats.json_text import texts_of


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

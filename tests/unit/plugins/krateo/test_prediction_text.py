"""Predictions as lines of the spool and as parts of several POSTs."""

import orjson
import pytest

from inferrun_krateo.prediction_text import escape, lines_of, split


@pytest.mark.parametrize(
    ("predictions", "values"),
    [
        ([1, [2, [3.5]], [4, None], "a"], [1, 2, 3.5, 4, None, "a"]),
        ([1, [2, [3.5]], [4, None]], [1, 2, 3.5, 4, None]),
        ([[], []], []),
        ([], []),
        ([1, 2.5, None, True], [1, 2.5, None, True]),
        (["a,b", 'c"d', "e\\f\n", ["[x]"]], ["a,b", 'c"d', "e\\f\n", "[x]"]),
    ],
)
def test_predictions_are_flattened_to_one_value_per_line(
    predictions: list[object], values: list[object]
) -> None:
    lines = lines_of([orjson.dumps(prediction) for prediction in predictions]).splitlines()
    assert [orjson.loads(line) for line in lines] == values


@pytest.mark.parametrize("room", [1, 5, 8, 1000])
def test_parts_cover_all_lines_and_fit_into_the_room_if_a_line_does(room: int) -> None:
    lines = [b"1\n", b"22\n", b'"3"\n', b"4\n", b"5\n"]
    text = b"".join(lines)
    parts = split(lines, room=room)
    assert b"".join(text[part.start : part.end] for part in parts) == text
    assert [part.offset for part in parts] == [text[: part.start].count(b"\n") for part in parts]
    for part in parts:
        content = text[part.start : part.end]
        assert part.escaped == len(escape(content))
        assert part.escaped <= room or content.count(b"\n") == 1

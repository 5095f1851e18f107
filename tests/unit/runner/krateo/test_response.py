"""The stream parser of `{"result": [[number, …], …]}`."""

import orjson
import pytest

from runner.krateo.answer import ResultRows

ROWS = [[5.1, 3.5, 1.4, 0.2], [-1, 2e-3, 0, 4], [7, 8, 9, 10]]

GOOD = {
    "compact": orjson.dumps({"result": ROWS}),
    "as Python prints it": b'{"result": [[5.1, 3.5, 1.4, 0.2], [-1, 0.002, 0, 4], [7, 8, 9, 10]]}',
    "over many lines": orjson.dumps({"result": ROWS}, option=orjson.OPT_INDENT_2),
    "with members before": b'{"note": "a ] \\" [ }", "nested": {"result": [[1]]}, "n": 1, "result": [[5.1,3.5,1.4,0.2],'
    b"[-1,0.002,0,4],[7,8,9,10]]}",
    "with members behind": b'{"result":[[5.1,3.5,1.4,0.2],[-1,0.002,0,4],[7,8,9,10]] , "count": 3, "more": [[1]]}\n',
    "with space in front": b'\n  {  "result"  :  [  [5.1,3.5,1.4,0.2]  ,  [-1,0.002,0,4] ,[7,8,9,10]  ]  }  ',
}

BAD = {
    "traceback": (b"Traceback (most recent call last):\n  File", "not a JSON object"),
    "array": (b"[[1,2]]", "not a JSON object"),
    "text": (b'"result"', "not a JSON object"),
    "other member": (b'{"error": "no such table"}', 'no "result"'),
    "empty object": (b"{}", 'no "result"'),
    "empty body": (b"", "body is empty"),
    "blank body": (b" \n", "body is empty"),
    "result is a number": (b'{"result": 1}', "not an array"),
    "result is null": (b'{"result": null}', "not an array"),
    "text in a row": (b'{"result": [[1, 2], [3, "x"]]}', "row 1 holds the text 'x'"),
    "null in a row": (b'{"result": [[1, 2], [3, null]]}', "row 1 holds null"),
    "true in a row": (b'{"result": [[1, true]]}', "row 0 holds true"),
    "not a number": (b'{"result": [[1, NaN]]}', "not JSON"),
    "row is a number": (b'{"result": [[1], 2]}', "not JSON|is the number"),
    "rows are numbers": (b'{"result": [1, 2]}', "is the number 1|not JSON"),
    "row is a text": (b'{"result": ["[1]", [2]]}', "not JSON|is the text"),
    "nested row": (b'{"result": [[[1], [2]]]}', "not JSON|holds an array|a comma"),
    "empty row": (b'{"result": [[]]}', "is an empty array"),
    "ragged": (b'{"result": [[1, 2], [3]]}', "has 1 numbers"),
    "cut in a row": (b'{"result": [[1, 2], [3', "before the array is closed"),
    "cut behind a row": (b'{"result": [[1, 2]', "before the array is closed"),
    "cut behind the array": (b'{"result": [[1, 2]]', "not JSON"),
    "cut in the name": (b'{"resu', "not JSON"),
    "trailing comma": (b'{"result": [[1, 2],]}', "not JSON"),
    "no comma": (b'{"result": [[1, 2] [3, 4]]}', "not JSON|a comma"),
    "text behind": (b'{"result": [[1, 2]]} Traceback', "not JSON"),
    "two documents": (b'{"result": [[1, 2]]}{"result": [[1, 2]]}', "not JSON"),
}


def parse(*pieces: bytes, row_limit: int = 1000) -> list[list[float]]:
    parser = ResultRows(row_limit=row_limit)
    rows = [row for piece in pieces for row in parser.feed(piece)]
    parser.close()
    return rows


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_rows_are_the_same_wherever_the_answer_is_cut(text: bytes) -> None:
    assert parse(text) == ROWS
    for cut in range(len(text) + 1):
        assert parse(text[:cut], text[cut:]) == ROWS, cut
    assert parse(*(bytes([byte]) for byte in text)) == ROWS


@pytest.mark.parametrize("text", [b'{"result":[]}', b'{"result": [ ] }', b'{"n": 1, "result":\n[]}'])
def test_no_rows_are_an_answer_too(text: bytes) -> None:
    for cut in range(len(text) + 1):
        assert parse(text[:cut], text[cut:]) == []


@pytest.mark.parametrize(("text", "fault"), BAD.values(), ids=BAD)
def test_what_was_not_agreed_is_told_wherever_the_answer_is_cut(text: bytes, fault: str) -> None:
    for cut in range(len(text) + 1):
        with pytest.raises(ValueError, match=fault):
            parse(text[:cut], text[cut:])


def test_the_number_of_a_bad_row_counts_from_the_start_of_the_answer() -> None:
    with pytest.raises(ValueError, match="row 2 holds the text"):
        parse(b'{"result": [[1, 2], [3, 4]', b', ["x", 5]]}')


def test_rows_of_another_width_are_refused_across_pieces() -> None:
    with pytest.raises(ValueError, match="row 1 has 3 numbers, earlier ones have 2"):
        parse(b'{"result": [[1, 2]', b", [3, 4, 5]]}")


def test_a_row_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ValueError, match="longer than 50 bytes"):
        parse(b'{"result": [[', b"1, " * 20, row_limit=50)


def test_much_text_before_or_behind_the_rows_is_refused() -> None:
    with pytest.raises(ValueError, match='no "result" near its start'):
        parse(b'{"note": "' + b"x" * 70_000)
    with pytest.raises(ValueError, match="follow the rows"):
        parse(b'{"result": [[1]], "note": "', b"x" * 70_000)

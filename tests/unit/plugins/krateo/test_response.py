"""The stream parser for `{"result": [[number, …], …]}`."""

import orjson
import pytest

from inferrun_krateo.response import ResultRows, Row

ROWS = [[5.1, 3.5, 1.4, 0.2], [-1, 2e-3, 0, 4], [7, 8, 9, 10]]

GOOD = {
    "compact": orjson.dumps({"result": ROWS}),
    "as Python prints it": b'{"result": [[5.1, 3.5, 1.4, 0.2], [-1, 0.002, 0, 4], [7, 8, 9, 10]]}',
    "over many lines": orjson.dumps({"result": ROWS}, option=orjson.OPT_INDENT_2),
    "with members before": b'{"note": "a ] \\" [ }", "nested": {"result": [[1]]}, "n": 1, "result": [[5.1,3.5,1.4,0.2],'
    b"[-1,0.002,0,4],[7,8,9,10]]}",
    "with members after": b'{"result":[[5.1,3.5,1.4,0.2],[-1,0.002,0,4],[7,8,9,10]] , "count": 3, "more": [[1]]}\n',
    "with leading space": b'\n  {  "result"  :  [  [5.1,3.5,1.4,0.2]  ,  [-1,0.002,0,4] ,[7,8,9,10]  ]  }  ',
}

BAD = {
    "traceback": (b"Traceback (most recent call last):\n  File", "not a JSON object"),
    "array": (b"[[1,2]]", "not a JSON object"),
    "text": (b'"result"', "not a JSON object"),
    "other member": (b'{"error": "no such table"}', 'no member "result"'),
    "empty object": (b"{}", 'no member "result"'),
    "empty body": (b"", "the body is empty"),
    "blank body": (b" \n", "the body is empty"),
    "result is a number": (b'{"result": 1}', "not an array"),
    "result is null": (b'{"result": null}', "not an array"),
    "text in a row": (b'{"result": [[1, 2], [3, "x"]]}', "row 1 contains a string"),
    "true in a row": (b'{"result": [[1, true]]}', "row 0 contains a boolean"),
    "not a number": (b'{"result": [[1, NaN]]}', "invalid JSON|not valid JSON"),
    "row is a number": (b'{"result": [[1], 2]}', "invalid JSON|got a number"),
    "rows are numbers": (b'{"result": [1, 2]}', "got a number|invalid JSON"),
    "row is a text": (b'{"result": ["[1]", [2]]}', "invalid JSON|got a string"),
    "nested row": (b'{"result": [[[1], [2]]]}', "invalid JSON|contains an array|a comma"),
    "empty row": (b'{"result": [[]]}', "got an empty array"),
    "ragged": (b'{"result": [[1, 2], [3]]}', "has 1 numbers"),
    "truncated in a row": (b'{"result": [[1, 2], [3', "before the array is closed"),
    "truncated after a row": (b'{"result": [[1, 2]', "before the array is closed"),
    "truncated after the array": (b'{"result": [[1, 2]]', "invalid JSON|not valid JSON"),
    "truncated in the name": (b'{"resu', "invalid JSON|not valid JSON"),
    "trailing comma": (b'{"result": [[1, 2],]}', "invalid JSON|not valid JSON"),
    "no comma": (b'{"result": [[1, 2] [3, 4]]}', "invalid JSON|a comma"),
    "text after": (b'{"result": [[1, 2]]} Traceback', "invalid JSON|not valid JSON"),
    "two documents": (b'{"result": [[1, 2]]}{"result": [[1, 2]]}', "invalid JSON|not valid JSON"),
}


def parse(*pieces: bytes, row_limit: int = 1000) -> list[Row]:
    parser = ResultRows(row_limit=row_limit)
    rows = [row for piece in pieces for row in parser.feed(piece)]
    parser.close()
    return rows


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_rows_do_not_depend_on_how_the_response_is_split(text: bytes) -> None:
    assert parse(text) == ROWS
    for cut in range(len(text) + 1):
        assert parse(text[:cut], text[cut:]) == ROWS, cut
    assert parse(*(bytes([byte]) for byte in text)) == ROWS


@pytest.mark.parametrize("split", range(12))
def test_nulls_and_a_byte_order_mark_are_accepted(split: int) -> None:
    text = b'\xef\xbb\xbf{"result": [[1, null], [null, 2]]}'
    assert parse(text[:split], text[split:]) == [[1, None], [None, 2]]


@pytest.mark.parametrize(
    "text", [b'{"result":[]}', b'{"result": [ ] }', b'{"n": 1, "result":\n[]}']
)
def test_a_response_may_have_no_rows(text: bytes) -> None:
    for cut in range(len(text) + 1):
        assert parse(text[:cut], text[cut:]) == []


@pytest.mark.parametrize(("text", "fault"), BAD.values(), ids=BAD)
def test_an_invalid_response_is_described_however_it_is_split(text: bytes, fault: str) -> None:
    for cut in range(len(text) + 1):
        with pytest.raises(ValueError, match=fault):
            parse(text[:cut], text[cut:])


def test_an_endless_row_is_rejected_before_it_fills_the_memory() -> None:
    with pytest.raises(ValueError, match="row 0 is longer than 50 bytes"):
        parse(b'{"result": [[', b"1, " * 20, row_limit=50)


def test_much_text_before_or_after_the_rows_is_rejected() -> None:
    with pytest.raises(ValueError, match='no "result" within the first 65536 bytes'):
        parse(b'{"note": "' + b"x" * 70_000)
    with pytest.raises(ValueError, match="bytes after the rows"):
        parse(b'{"result": [[1]], "note": "', b"x" * 70_000)

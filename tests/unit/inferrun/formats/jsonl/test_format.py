"""Records as JSON lines: ranges, forms of a record, invalid records."""

import io
import json
from pathlib import Path

import orjson
import pytest

from inferrun.formats.jsonl.format import JSONL, Jsonl
from inferrun.formats.record_texts import copied_texts
from inferrun.plugins import (
    Batch,
    Block,
    Chunk,
    ColumnSelection,
    Limits,
    RecordError,
    ResultCounts,
    Results,
)
from tests.unit.runner.batches import batch, decoded, file_of, results


def read(
    path: Path, *, start: int = 0, end: int | None = None, limits: Limits | None = None
) -> list[Block]:
    end = path.stat().st_size if end is None else end
    return list(JSONL.read(file_of(path), chunk_of(start, end), limits=limits or Limits()))


def chunk_of(start: int, end: int) -> Chunk:
    return Chunk(index=0, unit=0, start=start, end=end, first=0, records=1)


def rows(blocks: list[Block]) -> list[object]:
    return [row for block in blocks for row in decoded(block)]


def count(path: Path, *, size: int | None = None, chunk_bytes: int = 1000) -> int:
    pieces = JSONL.plan(file_of(path, size=size), chunk_bytes=chunk_bytes, limits=Limits())
    return sum(piece.records for piece in pieces)


def lines_of(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


@pytest.mark.parametrize(
    "text", ["[1]\n[22]\n\n[333]\n", "[1]\n[22]\n[333]", "\n\n[1]\r\n  \n[22]\r\n[333]\r\n\r\n"]
)
@pytest.mark.parametrize("size", range(1, 24))
def test_each_record_is_in_exactly_one_range_whatever_the_ranges_are(
    path: Path, text: str, size: int
) -> None:
    path.write_bytes(text.encode())
    total = len(text.encode())
    ranges = [
        read(path, start=start, end=min(start + size, total)) for start in range(0, total, size)
    ]
    assert [row for batches in ranges for row in rows(batches)] == [[1], [22], [333]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("\n \n", 0), ("[1]", 1), ("[1]\n", 1), ("[1]\n\n[2]\n", 2), ("[1]\r\n\r\n[2]", 2)],
)
def test_records_are_counted_without_blank_lines(path: Path, text: str, expected: int) -> None:
    path.write_bytes(text.encode())
    assert {count(path, chunk_bytes=size) for size in (1, 2, 3, 5, 100)} == {expected}
    assert len(rows(read(path))) == expected


def test_lines_after_the_expected_size_are_ignored(path: Path) -> None:
    lines_of(path, "[1]\n[2]\n")
    assert rows(list(JSONL.read(file_of(path, size=4), chunk_of(0, 4), limits=Limits()))) == [[1]]
    assert count(path, size=4) == 1


def test_ids_are_optional_and_kept(path: Path) -> None:
    lines_of(
        path,
        '{"custom_id": "a", "inputs": [1]}\n[2]\n{"inputs": [3]}\n{"custom_id": 7, "inputs": [4]}\n',
    )
    (block,) = read(path)
    assert decoded(block) == [[1], [2], [3], [4]]
    assert block.ids == ["a", None, None, 7]


def test_bytes_are_strings_with_and_without_a_bad_line_beside_them(path: Path) -> None:
    lines = ['{"b64": "/wA="}', '"x"', '{"custom_id": "a", "inputs": {"b64": "/w=="}}']
    expected = [{"b64": "/wA="}, "x", {"b64": "/w=="}]
    assert rows(read(lines_of(path, "\n".join(lines)))) == expected
    (block,) = read(lines_of(path, "\n".join([*lines, "[1", "\n" * 100])))
    assert decoded(block)[:3] == expected
    assert set(block.errors) == {3}


@pytest.mark.parametrize("text", ["\ufeff", "\ufeff\n", "\ufeff\n[1]\n", "\ufeff[1]\n"])
@pytest.mark.parametrize("chunk_bytes", [2, 3, 4, 100])
def test_a_byte_order_mark_is_not_counted_as_a_record(
    path: Path, text: str, chunk_bytes: int
) -> None:
    path.write_bytes(text.encode())
    size = path.stat().st_size
    found = [
        row
        for start in range(0, size, chunk_bytes)
        for row in rows(read(path, start=start, end=start + chunk_bytes))
    ]
    assert count(path, chunk_bytes=chunk_bytes) == len(found) == text.count("[1]")


def test_the_line_number_counts_the_line_of_a_byte_order_mark(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf\n[1]\n[x]\n")
    (block,) = read(path)
    assert block.errors[1].message.startswith("rows.jsonl line 3 is not valid JSON")


FAULTS = {
    "not JSON": ("[1, 2", "is not valid JSON"),
    "NaN": ("[1, NaN]", "is not valid JSON"),
    "text": ('["a", 1]', "contains a string at position 0; only numbers and null are allowed"),
    "boolean": ("[1, false]", "contains a boolean at position 1"),
    "nested": ("[[1], 2]", "contains an array at position 0"),
    "null": ("null", "must be a value or an array, got null"),
    "string": ('"abc"', "has a string, others have 2 numbers"),
    "texts": ('["a", "b"]', "has 2 strings, others have 2 numbers"),
    "ragged matrix": ("[[1, 2], [3]]", "has arrays of different lengths or kinds"),
    "empty": ("[]", "got an empty array"),
    "too deep": ("[" * 900 + "1" + "]" * 900, "is nested too deeply"),
    "too deep inputs": ('{"inputs": ' + "[" * 300 + "1" + "]" * 300 + "}", "is nested too deeply"),
    "no inputs": ('{"custom_id": "a"}', 'has no "inputs"'),
    "inputs are text": ('{"inputs": "a"}', "has a string, others have 2 numbers"),
    "inputs are an object": ('{"inputs": {"b64": "?"}}', "got an object"),
    "id is a list": ('{"custom_id": [1], "inputs": [1, 2]}', '"custom_id" must be'),
    "id is a boolean": ('{"custom_id": true, "inputs": [1, 2]}', '"custom_id" must be'),
    "two records": ("[1, 2], [3, 4]", "is not valid JSON"),
}


@pytest.mark.parametrize(("line", "fault"), FAULTS.values(), ids=FAULTS)
def test_an_invalid_record_costs_one_record_and_is_reported_with_file_and_line(
    path: Path, line: str, fault: str
) -> None:
    lines_of(path, f"[1, 2]\n\n[3, 4]\n{line}\n[5, 6]\n")
    (block,) = read(path)
    found = decoded(block)
    assert (found[0], found[1], found[3]) == ([1, 2], [3, 4], [5, 6])
    ((at, error),) = block.errors.items()
    assert (at, error.code) == (2, "invalid_input")
    assert error.message.startswith("rows.jsonl line 4 ")
    assert fault in error.message


@pytest.mark.parametrize(
    "values",
    [
        ["a", "", "ü "],
        [["a"], ["b"]],
        [True, False],
        [1, 2.5],
        [[[1, 2], [3, None]], [[5, 6], [7, 8]]],
        [[[["a"], ["b"]]], [[["c"], ["d"]]]],
        [{"b64": "/wA="}, "text"],
    ],
)
def test_a_record_may_be_a_value_or_a_nested_array(path: Path, values: list[object]) -> None:
    given = [value for value in values if not isinstance(value, dict)]
    assert rows(read(lines_of(path, "".join(json.dumps(value) + "\n" for value in given)))) == given
    (block,) = read(
        lines_of(
            path,
            "".join(json.dumps({"custom_id": "a", "inputs": value}) + "\n" for value in values),
        )
    )
    assert (rows([block]), block.ids, block.errors) == (values, ["a"] * len(values), {})


def test_a_line_in_a_later_block_is_named_by_its_first_byte(path: Path) -> None:
    text = "[1, 2]\n" * 500 + "[1, x]\n" + "[1, 2]\n" * 500
    lines_of(path, text)
    (error,) = (
        one
        for block in read(path, start=2000, limits=Limits(batch_bytes=1024))
        for one in block.errors.values()
    )
    assert error.message.startswith("rows.jsonl, the line at byte 3500, is not valid JSON")


def test_an_invalid_record_keeps_its_id(path: Path) -> None:
    (block,) = read(
        lines_of(path, '{"custom_id": "a", "inputs": [1]}\n{"custom_id": "b", "inputs": ["x"]}\n')
    )
    assert block.ids == ["a", "b"]
    assert set(block.errors) == {1}


def test_records_may_have_different_dimensions_but_values_of_one_kind(path: Path) -> None:
    (block,) = read(lines_of(path, '"a"\n[1]\n[1, 2]\n3\n["b"]\n[[4]]\n'))
    assert {at: error.message for at, error in block.errors.items()} == {
        0: "rows.jsonl line 1 has a string, others have 1 numbers",
        4: "rows.jsonl line 5 has 1 strings, others have 1 numbers",
    }
    assert [decoded(block)[at] for at in (1, 2, 3, 5)] == [[1], [1, 2], 3, [[4]]]
    (block,) = read(lines_of(path, "[1]\n[1, 2]\n"))
    assert (decoded(block), block.errors) == ([[1], [1, 2]], {})


def written(given: Batch, found: Results) -> tuple[list[object], list[object], ResultCounts]:
    """The lines of the result file and of the error file, and the counts."""
    out, errors = io.BytesIO(), io.BytesIO()
    writer = JSONL.writer(out, errors)
    writer.write(given, found)
    lines, failed = (
        [orjson.loads(line) for line in one.getvalue().splitlines()] for one in (out, errors)
    )
    return lines, failed, writer.close()


def test_results_are_lines_with_index_and_id() -> None:
    given = batch([[1]] * 4, first=7, ids=["a", None, 3, "b"])
    lines, failed, counts = written(given, results([0, [0.5, 1], "setosa", None]))
    assert lines == [
        {"index": 7, "custom_id": "a", "prediction": 0},
        {"index": 8, "prediction": [0.5, 1]},
        {"index": 9, "custom_id": 3, "prediction": "setosa"},
        {"index": 10, "custom_id": "b", "prediction": None},
    ]
    assert (failed, counts) == ([], ResultCounts(completed=4))


def test_an_error_is_written_in_place_of_a_prediction_and_to_the_error_file() -> None:
    error = RecordError("invalid_prediction", "the model returned NaN", attempts=2)
    lines, failed, counts = written(
        batch([[1]] * 2, ids=['a,"error":', None]), results(['b,"error":', error])
    )
    line = {
        "index": 1,
        "error": {"code": "invalid_prediction", "message": "the model returned NaN", "attempts": 2},
    }
    assert lines == [{"index": 0, "custom_id": 'a,"error":', "prediction": 'b,"error":'}, line]
    assert (failed, counts) == ([line], ResultCounts(completed=1, failed=1))


def test_numbers_that_are_copied_keep_their_texts(path: Path) -> None:
    lines_of(
        path,
        '{"id": 1, "price": 123456789012345678.25, "rates": {"a": [1.000000000000000001]}, "n": 0.1}\n',
    )
    columns = ColumnSelection(fed=("id",), copied=("price", "rates", "n"))
    (block,) = JSONL.with_columns(columns).read(file_of(path), chunk_of(0, 1), limits=Limits())
    assert copied_texts(block) == [
        b'"price":123456789012345678.25,"rates":{"a":[1.000000000000000001]},"n":0.1'
    ]


def test_a_line_that_is_nested_too_deeply_is_an_error_of_its_record(path: Path) -> None:
    lines_of(
        path,
        f'{{"id": 1, "price": {"[" * 1000}123456789012345678.25{"]" * 1000}}}\n{{"id": 2, "price": 1.5}}\n',
    )
    columns = ColumnSelection(fed=("id",), copied=("price",))
    (block,) = JSONL.with_columns(columns).read(file_of(path), chunk_of(0, 1000), limits=Limits())
    assert list(block.errors) == [0]


def test_a_line_that_is_no_record_keeps_what_is_copied_of_it(path: Path) -> None:
    lines = [
        '{"custom_id": "a", "ticket": "T-0", "body": 1}',
        '{"custom_id": "b", "ticket": "T-1", "price": 123456789012345678.25}',
        '{"custom_id": true, "ticket": "T-2", "body": 1}',
        '{"body": 1}',
        "[1]",
        '{"ticket": "T-5", "body": 1',
    ]
    lines_of(path, "\n".join(lines) + "\n")
    columns = ColumnSelection(fed=("body",), copied=("ticket", "price"))
    everything = ColumnSelection(fed=("body",), copies_all=True)
    (block,) = JSONL.with_columns(columns).read(file_of(path), chunk_of(0, 1000), limits=Limits())
    assert sorted(block.errors) == [0, 1, 2, 3, 4, 5]
    assert list(block.ids) == ["a", "b", None, None, None, None]
    whole = b'"ticket":"T-1","price":123456789012345678.25'
    assert copied_texts(block) == [b'"ticket":"T-0"', whole, b'"ticket":"T-2"', b"", b"", b""]
    (block,) = JSONL.with_columns(everything).read(
        file_of(path), chunk_of(0, 1000), limits=Limits()
    )
    assert sorted(block.errors) == [1, 2, 4, 5]
    assert copied_texts(block)[1] == whole


def test_a_member_that_an_object_lacks_can_be_null(tmp_path: Path) -> None:
    """Spark 4.1.1 leaves out nulls, and so does dlt 1.31.0."""
    file = file_of(lines_of(tmp_path / "a.jsonl", '{"x":1,"t":"a","n":0.10}\n{"t":"b"}\n{}\n'))
    reader = Jsonl(ColumnSelection(fed=("x",), copied=("t", "n"))).with_nulls()
    (block,) = reader.read(file, chunk_of(0, file.size), limits=Limits())
    assert not block.errors
    assert decoded(block) == [{"x": 1}, {"x": None}, {"x": None}]
    copied = [orjson.loads(b"{%b}" % one) for one in copied_texts(block)]
    assert copied == [{"t": "a", "n": 0.1}, {"t": "b", "n": None}, {"t": None, "n": None}]

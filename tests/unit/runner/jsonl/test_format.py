"""Records as JSON lines: ranges, forms of a record, invalid records."""

import io
from pathlib import Path

import orjson
import pytest

from inferrun.plugins import Batch, Chunk, InputError, Limits, Prediction, RecordError, ResultCounts, Row
from runner.jsonl.format import JSONL


def read(path: Path, *, start: int = 0, end: int | None = None, limits: Limits | None = None) -> list[Batch]:
    size = path.stat().st_size
    chunk = Chunk(index=0, unit=0, start=start, end=size if end is None else end)
    return list(JSONL.read(path, chunk, size=size, first=0, limits=limits or Limits()))


def rows(batches: list[Batch]) -> list[Row]:
    return [row for batch in batches for row in batch.rows]


def lines_of(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


@pytest.mark.parametrize("text", ["[1]\n[22]\n\n[333]\n", "[1]\n[22]\n[333]", "\n\n[1]\r\n  \n[22]\r\n[333]\r\n\r\n"])
@pytest.mark.parametrize("size", range(1, 24))
def test_each_record_is_in_exactly_one_range_whatever_the_ranges_are(path: Path, text: str, size: int) -> None:
    path.write_bytes(text.encode())
    total = len(text.encode())
    ranges = [read(path, start=start, end=min(start + size, total)) for start in range(0, total, size)]
    assert [row for batches in ranges for row in rows(batches)] == [[1], [22], [333]]


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("\n \n", 0), ("[1]", 1), ("[1]\n", 1), ("[1]\n\n[2]\n", 2), ("[1]\r\n\r\n[2]", 2)],
)
def test_records_are_counted_without_blank_lines(path: Path, text: str, count: int) -> None:
    path.write_bytes(text.encode())
    assert JSONL.count(path, size=len(text)) == count
    assert len(rows(read(path))) == count


def test_lines_after_the_expected_size_are_ignored(path: Path) -> None:
    lines_of(path, "[1]\n[2]\n")
    chunk = Chunk(index=0, unit=0, start=0, end=4)
    assert rows(list(JSONL.read(path, chunk, size=4, first=0, limits=Limits()))) == [[1]]
    assert JSONL.count(path, size=4) == 1


def test_batches_are_limited_in_rows_and_in_bytes(path: Path) -> None:
    lines_of(path, "[1]\n" * 10)
    assert [len(batch.rows) for batch in read(path, limits=Limits(batch_rows=4))] == [4, 4, 2]
    lines_of(path, "[" + "1," * 600 + "1]\n" + "[" + "2," * 600 + "2]\n")
    assert [len(batch.rows) for batch in read(path, limits=Limits(batch_bytes=1024))] == [1, 1]


def test_a_batch_has_the_index_of_its_first_record(path: Path) -> None:
    lines_of(path, "[1]\n" * 10)
    chunk = Chunk(index=3, unit=0, start=0, end=40)
    batches = list(JSONL.read(path, chunk, size=40, first=100, limits=Limits(batch_rows=4)))
    assert [batch.first for batch in batches] == [100, 104, 108]


def test_ids_are_optional_and_kept(path: Path) -> None:
    lines_of(path, '{"custom_id": "a", "inputs": [1]}\n[2]\n{"inputs": [3]}\n{"custom_id": 7, "inputs": [4]}\n')
    (batch,) = read(path)
    assert batch.rows == [[1], [2], [3], [4]]
    assert batch.ids == ["a", None, None, 7]


def test_a_byte_order_mark_is_skipped(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf[1]\n[2]\n")
    assert rows(read(path)) == [[1], [2]]


@pytest.mark.parametrize("text", ["\ufeff", "\ufeff\n", "\ufeff\n[1]\n", "\ufeff[1]\n"])
@pytest.mark.parametrize("chunk_bytes", [2, 3, 4, 100])
def test_a_byte_order_mark_is_not_counted_as_a_record(path: Path, text: str, chunk_bytes: int) -> None:
    path.write_bytes(text.encode())
    size = path.stat().st_size
    found = [
        row for start in range(0, size, chunk_bytes) for row in rows(read(path, start=start, end=start + chunk_bytes))
    ]
    assert JSONL.count(path, size=size) == len(found) == text.count("[1]")


def test_the_line_number_counts_the_line_of_a_byte_order_mark(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf\n[1]\n[x]\n")
    with pytest.raises(InputError, match=r"rows\.jsonl line 3 is not valid JSON"):
        read(path)


def test_null_is_a_missing_number(path: Path) -> None:
    assert rows(read(lines_of(path, "[1, null]\n[null, 2]\n"))) == [[1, None], [None, 2]]


FAULTS = {
    "not JSON": ("[1, 2", "is not valid JSON"),
    "NaN": ("[1, NaN]", "is not valid JSON"),
    "text": ('["a", 1]', "contains a string at position 0"),
    "boolean": ("[1, false]", "contains a boolean at position 1"),
    "nested": ("[[1], 2]", "contains an array at position 0"),
    "number": ("5", "got a number"),
    "string": ('"abc"', "got a string"),
    "empty": ("[]", "got an empty array"),
    "ragged": ("[1]", "has 1 numbers, previous rows have 2"),
    "no inputs": ('{"custom_id": "a"}', 'has no "inputs"'),
    "inputs are text": ('{"inputs": "a"}', "got a string"),
    "id is a list": ('{"custom_id": [1], "inputs": [1, 2]}', '"custom_id" must be'),
    "id is a boolean": ('{"custom_id": true, "inputs": [1, 2]}', '"custom_id" must be'),
    "two records": ("[1, 2], [3, 4]", "is not valid JSON"),
}


@pytest.mark.parametrize(("line", "fault"), FAULTS.values(), ids=FAULTS)
def test_an_invalid_record_is_reported_with_file_and_line(path: Path, line: str, fault: str) -> None:
    lines_of(path, f"[1, 2]\n\n[3, 4]\n{line}\n[5, 6]\n")
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith("rows.jsonl line 4 ")
    assert fault in str(error.value)


def test_the_line_number_is_correct_in_a_later_range_and_batch(path: Path) -> None:
    text = "[1, 2]\n" * 500 + "[1, x]\n" + "[1, 2]\n" * 500
    lines_of(path, text)
    with pytest.raises(InputError, match=r"rows\.jsonl line 501 is not valid JSON"):
        read(path, start=2000, limits=Limits(batch_rows=7))


def test_a_record_over_the_limit_is_rejected_before_it_is_read_completely(path: Path) -> None:
    lines_of(path, "[1]\n" + "[" + "1," * 2000 + "1]\n")
    with pytest.raises(InputError, match=r"line 2: the record is longer than 1024 bytes"):
        read(path, limits=Limits(record_bytes=1024))


def test_a_file_that_became_shorter_is_reported_as_changed(path: Path) -> None:
    lines_of(path, "[1]\n[2]\n")
    chunk = Chunk(index=0, unit=0, start=0, end=100)
    with pytest.raises(InputError, match="changed while it was being read"):
        list(JSONL.read(path, chunk, size=100, first=0, limits=Limits()))


def test_results_are_lines_with_index_and_id() -> None:
    out = io.BytesIO()
    predictions: list[Prediction] = [0, [0.5, 1], "setosa", None]
    JSONL.write(out, Batch(first=7, rows=[[1]] * 4, ids=["a", None, 3, "b"]), predictions)
    assert [orjson.loads(line) for line in out.getvalue().splitlines()] == [
        {"index": 7, "custom_id": "a", "prediction": 0},
        {"index": 8, "prediction": [0.5, 1]},
        {"index": 9, "custom_id": 3, "prediction": "setosa"},
        {"index": 10, "custom_id": "b", "prediction": None},
    ]
    out.seek(0)
    assert JSONL.count_results(out) == ResultCounts(completed=4)


def test_an_error_is_written_in_place_of_a_prediction_and_counted() -> None:
    error = RecordError("invalid_prediction", "the model returned NaN")
    out = io.BytesIO()
    JSONL.write(out, Batch(first=0, rows=[[1]] * 2, ids=['a,"error":{"code":', None]), ['b,"error":{"code":', error])
    assert [orjson.loads(line) for line in out.getvalue().splitlines()] == [
        {"index": 0, "custom_id": 'a,"error":{"code":', "prediction": 'b,"error":{"code":'},
        {"index": 1, "error": {"code": "invalid_prediction", "message": "the model returned NaN"}},
    ]
    out.seek(0)
    assert JSONL.count_results(out) == ResultCounts(completed=1, failed=1)

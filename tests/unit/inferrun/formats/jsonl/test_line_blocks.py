"""Lines in byte ranges: each exactly once, wherever ranges and reads end."""

from pathlib import Path

import pytest

from inferrun.formats.jsonl.line_blocks import count_records, line_blocks, line_number
from inferrun.plugins import InputError
from tests.unit.runner.batches import file_of

TEXTS = {
    "ended": b"[1]\n[22]\n\n  \n[333]\n",
    "not ended": b"[1]\n[22]\n[333]",
    "blank first": b"\n\n[1]\r\n \r\n[22]",
    "one": b"[4444444444]",
    "nothing": b"",
    "only blank": b"\n \n\n",
}


@pytest.fixture(params=TEXTS.values(), ids=list(TEXTS))
def text(request: pytest.FixtureRequest) -> bytes:
    return bytes(request.param)


@pytest.fixture
def path(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 100])
def test_ranges_yield_every_byte_once_in_whole_lines(
    path: Path, text: bytes, step: int, piece: int
) -> None:
    found = [
        block
        for start in range(0, len(text), step)
        for block in line_blocks(
            file_of(path), start=start, end=start + step, line_limit=99, piece=piece
        )
    ]
    assert b"".join(block for _, block in found) == text
    assert [place for place, _ in found] == [
        sum(len(block) for _, block in found[:at]) for at in range(len(found))
    ]
    assert all(block.endswith(b"\n") for _, block in found[:-1])


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 8, 100])
def test_lines_are_counted_without_blank_ones(path: Path, text: bytes, piece: int) -> None:
    blocks = line_blocks(file_of(path), start=0, end=len(text), line_limit=99, piece=piece)
    assert sum(count_records(block) for _, block in blocks) == len(
        [line for line in text.splitlines() if line.strip()]
    )


def test_a_line_number_is_found_by_offset_and_by_count(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1]\n\n[2]\n[3]\n")
    assert [line_number(file_of(path), place) for place in (0, 4, 5, 9)] == [1, 3, 3, 4]
    assert [line_number(file_of(path), 0, records=count) for count in (0, 1, 2)] == [1, 3, 4]
    path.write_bytes(b"\xef\xbb\xbf\n[1]\n")
    assert line_number(file_of(path), 0) == 2, "a byte order mark is no record"


def test_a_line_number_is_found_after_long_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 200_000 + b"\n" + b" " * 200_000 + b"\n" + b"y" * 200_000 + b"\n[1]")
    assert [line_number(file_of(path), 0, records=count) for count in (0, 1, 2)] == [1, 3, 4]
    assert line_number(file_of(path), 200_001) == 3


@pytest.mark.parametrize("piece", [1, 10, 64, 1000])
def test_a_line_over_the_limit_is_reported_with_its_number(tmp_path: Path, piece: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1]\n[2]\n" + b"x" * 101 + b"\n[3]\n")
    with pytest.raises(
        InputError, match=r"rows\.jsonl line 3: the record is longer than 100 bytes"
    ):
        list(line_blocks(file_of(path), start=0, end=999, line_limit=100, piece=piece))


def test_a_line_at_the_limit_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 100 + b"\n" + b"y" * 100)
    blocks = line_blocks(file_of(path), start=0, end=999, line_limit=100, piece=7)
    assert b"".join(block for _, block in blocks) == path.read_bytes()


def test_a_file_that_became_shorter_is_reported_as_changed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1]\n[2]\n")
    with pytest.raises(InputError, match="the file ends at byte 8, expected 12; it changed"):
        list(line_blocks(file_of(path, size=12), start=0, end=12, line_limit=100, piece=3))

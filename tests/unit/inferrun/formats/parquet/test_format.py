"""Records as columns of Parquet files."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from inferrun.formats.json_text import json_texts
from inferrun.formats.parquet.format import PARQUET
from inferrun.plugins import Block, Chunk, InputError, Limits, Piece
from tests.unit.runner.batches import decoded, file_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.parquet"


def write(path: Path, columns: dict[str, object], *, group: int = 1000) -> None:
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)


def pieces(path: Path, *, chunk_bytes: int = 1) -> list[Piece]:
    return list(PARQUET.plan(file_of(path), chunk_bytes=chunk_bytes, limits=Limits()))


def read(path: Path, *, start: int = 0, end: int = 1) -> list[Block]:
    chunk = Chunk(index=0, unit=0, start=start, end=end, first=0, records=1)
    return list(PARQUET.read(file_of(path), chunk, limits=Limits()))


def test_each_row_is_an_array_of_the_numbers_of_its_columns(path: Path) -> None:
    write(path, {"a": [1, 2, 3], "b": [0.5, None, float("nan")], "c": [True, False, True]})
    (block,) = read(path)
    assert json_texts(block.records) == [b"[1,0.5,1]", b"[2,null,0]", b"[3,null,1]"]
    assert block.ids == ()


def test_a_column_of_ids_is_copied(path: Path) -> None:
    write(path, {"custom_id": ["x", "y"], "a": [1, 2]})
    (block,) = read(path)
    assert (decoded(block), block.ids) == ([[1], [2]], ["x", "y"])


def test_ranges_are_row_groups(path: Path) -> None:
    write(path, {"a": list(range(10))}, group=4)
    assert pieces(path) == [Piece(0, 1, 4), Piece(1, 2, 4), Piece(2, 3, 2)]
    assert pieces(path, chunk_bytes=1 << 20) == [Piece(0, 3, 10)]
    assert [decoded(block) for block in read(path, start=1, end=3)] == [[[index] for index in range(4, 10)]]


def test_blocks_can_be_divided_and_joined(path: Path) -> None:
    write(path, {"a": list(range(10)), "b": [0.25] * 10})
    (block,) = read(path)
    first, second = block.records.part(0, 3), block.records.part(3, 10)
    assert (len(first), len(second)) == (3, 7)
    assert json_texts(first.join([second])) == json_texts(block.records)
    assert 160 <= block.records.nbytes < 200


def test_an_empty_file_has_no_records(path: Path) -> None:
    write(path, {"a": pyarrow.array([], pyarrow.float64())})
    assert pieces(path) == []


@pytest.mark.parametrize("columns", [{"a": [1], "b": ["x"]}, {"a": [[1, 2]]}, {"custom_id": [0.5], "a": ["x"]}])
def test_a_column_that_is_not_a_number_is_reported(path: Path, columns: dict[str, object]) -> None:
    write(path, columns)
    with pytest.raises(InputError, match=r"rows\.parquet: column '.*' has type .*; allowed are numbers"):
        pieces(path)


def test_a_file_without_numbers_is_reported(path: Path) -> None:
    write(path, {"custom_id": ["x"]})
    with pytest.raises(InputError, match="has no column of numbers"):
        pieces(path)


def test_a_file_of_another_format_is_reported(path: Path) -> None:
    path.write_text("[1]\n" * 100)
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read as Parquet"):
        pieces(path)

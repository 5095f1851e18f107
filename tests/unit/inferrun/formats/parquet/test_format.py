"""Records as columns of Parquet files."""

from pathlib import Path
from typing import BinaryIO

import pandas
import pyarrow
import pytest
from pyarrow import parquet

from inferrun.formats.parquet.format import PARQUET, Parquet
from inferrun.formats.record_texts import json_texts
from inferrun.formats.unify import SchemaRules, schema_of
from inferrun.plugins import Block, Chunk, ColumnSelection, InputError, Limits, Piece
from tests.unit.runner.batches import decoded, file_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.parquet"


def write(path: Path, columns: dict[str, object], *, group: int = 1000) -> None:
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)


def pieces(path: Path, *, chunk_bytes: int = 1) -> list[Piece]:
    return list(PARQUET.plan(file_of(path), chunk_bytes=chunk_bytes, limits=Limits()))


def read(path: Path, *, start: int = 0, end: int = 1000) -> list[Block]:
    chunk = Chunk(index=0, unit=0, start=start, end=end, first=0, records=1)
    return list(PARQUET.read(file_of(path), chunk, limits=Limits()))


def schema_in(path: Path) -> pyarrow.Schema:
    return schema_of([file_of(path)], PARQUET.schema, PARQUET.columns, SchemaRules({}))


def test_each_row_is_an_array_of_the_numbers_of_its_columns(path: Path) -> None:
    write(path, {"a": [1, 2, 3], "b": [0.5, None, float("nan")], "c": [True, False, True]})
    (block,) = read(path)
    assert json_texts(block.records) == [b"[1,0.5,1]", b"[2,null,0]", b"[3,null,1]"]
    assert block.ids == ()


def test_a_column_of_ids_is_copied(path: Path) -> None:
    write(path, {"custom_id": ["x", "y"], "a": [1, 2]})
    (block,) = read(path)
    assert (decoded(block), block.ids) == ([[1], [2]], ["x", "y"])


def test_ranges_are_rows_whatever_the_row_groups_are(path: Path) -> None:
    write(path, {"a": list(range(10))}, group=4)
    size = path.stat().st_size
    assert pieces(path, chunk_bytes=size * 3 // 10 + 1) == [
        Piece(0, 3, 3), Piece(3, 6, 3), Piece(6, 9, 3), Piece(9, 10, 1),
    ]  # fmt: skip
    assert pieces(path, chunk_bytes=1 << 20) == [Piece(0, 10, 10)]
    assert [row for block in read(path, start=3, end=9) for row in decoded(block)] == [
        [at] for at in range(3, 9)
    ]


def test_a_chunk_continues_where_the_one_before_has_ended(path: Path) -> None:
    write(path, {"a": list(range(100))}, group=40)
    opened: list[str] = []

    class Counted:
        name, size = path.name, path.stat().st_size

        def open(self) -> BinaryIO:
            opened.append(path.name)
            return path.open("rb")

    file, reader = Counted(), Parquet()
    found: list[object] = []
    for start in (0, 30, 60, 90, 30):
        chunk = Chunk(0, 0, start, min(start + 30, 100), 0, 1)
        found += [
            row for block in reader.read(file, chunk, limits=Limits()) for row in decoded(block)
        ]
    assert found == [[at] for at in [*range(100), *range(30, 60)]]
    assert len(opened) == 2


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


@pytest.mark.parametrize(
    "columns", [{"a": [1], "b": ["x"]}, {"a": [[1, 2]]}, {"custom_id": [0.5], "a": ["x"]}]
)
def test_a_column_that_is_not_a_number_is_reported(path: Path, columns: dict[str, object]) -> None:
    write(path, columns)
    with pytest.raises(
        InputError, match=r"rows\.parquet: column '.*' has type .*; allowed are numbers"
    ):
        schema_in(path)


def test_a_file_without_numbers_is_reported(path: Path) -> None:
    write(path, {"custom_id": ["x"]})
    with pytest.raises(InputError, match="has no column of numbers"):
        schema_in(path)


def test_a_file_of_another_format_is_reported(path: Path) -> None:
    path.write_text("[1]\n" * 100)
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read as Parquet"):
        pieces(path)


def test_encrypted_columns_are_refused(path: Path) -> None:
    """Their footer is readable and signed: a nonce of 12 bytes and a tag of 16 follow the
    metadata."""
    write(path, {"a": [1]})
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:-8] + bytes(28) + (size + 28).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(InputError, match="has a signed footer: columns of it are encrypted"):
        schema_in(path)


def test_an_encrypted_footer_is_named(path: Path) -> None:
    write(path, {"a": [1]})
    path.write_bytes(b"PARE" + path.read_bytes()[4:-4] + b"PARE")
    with pytest.raises(InputError, match="it is encrypted Parquet"):
        schema_in(path)


def test_the_index_of_a_pandas_frame_feeds_the_model_only_if_it_is_named(path: Path) -> None:
    frame = pandas.DataFrame({"a": [1.0, 2, 3, 4], "b": [1.0, 1, 1, 1]})
    for stored in (frame[frame.a != 2], frame.set_index(pandas.Index([7, 9, 20, 21], name="id"))):
        stored.to_parquet(path)
        found = schema_in(path)
        assert found.names == ["a", "b"]
        index = ({*PARQUET.schema(file_of(path)).names} - {"a", "b"}).pop()
        for columns in (ColumnSelection(fed=("a", index)), ColumnSelection(copied=(index,))):
            assert (
                index in schema_of([file_of(path)], PARQUET.schema, columns, SchemaRules({})).names
            )


@pytest.mark.parametrize("name", ["clickhouse/files/types.parquet"])
def test_a_column_of_the_logical_type_enum_is_text(name: str) -> None:
    stored = Path("tests/foreign") / name
    assert PARQUET.schema(file_of(stored)).field("e").type == pyarrow.string()


def test_a_page_that_differs_from_its_checksum_is_not_read(path: Path) -> None:
    """Spark 4.1.4 writes checksums; pyarrow, DuckDB and polars do not compare them by default."""
    table = pyarrow.table({"a": [1.5, 2.5]})
    parquet.write_table(
        table, path, compression="none", use_dictionary=False, write_page_checksum=True
    )
    assert decoded(read(path)[0]) == [[1.5], [2.5]]
    values = table["a"].chunk(0).buffers()[1].to_pybytes()
    path.write_bytes(path.read_bytes().replace(values, values[:6] + b"\xf9" + values[7:]))
    with pytest.raises(
        InputError, match="cannot be read as Parquet: a page is damaged, its checksum differs"
    ):
        read(path)

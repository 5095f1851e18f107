"""Files of polars with integers of 128 bits: the other columns are read, and these are refused."""

import io
from pathlib import Path

import pyarrow
import pytest

from inferrun.formats.arrow.format import ARROW, Arrow
from inferrun.formats.parquet.format import PARQUET, Parquet
from inferrun.formats.unify import SchemaRules, schema_of
from inferrun.formats.wide_integers import without_wide_integers
from inferrun.plugins import ArrowRecords, Chunk, ColumnSelection, InputError, Limits
from tests.unit.runner.batches import file_of

FILES = Path("tests/foreign/polars/files")
FORMATS = [(ARROW, "wide.arrow"), (PARQUET, "wide.parquet")]


@pytest.mark.parametrize(("form", "name"), FORMATS, ids=["arrow", "parquet"])
def test_the_other_columns_are_read(form: Arrow | Parquet, name: str) -> None:
    columns, file = ColumnSelection(fed=("id",), copied=("cat",)), file_of(FILES / name)
    reader = type(form)(columns)
    schema = schema_of([file], reader.schema, columns, SchemaRules({}))
    chunk = Chunk(index=0, unit=0, start=0, end=3, first=0, records=3)
    (block,) = type(form)(columns, schema).read(file, chunk, limits=Limits())
    assert isinstance(block.copied, ArrowRecords)
    assert block.copied.table.to_pydict() == {"cat": ["a", "b", None]}


@pytest.mark.parametrize(("form", "name"), FORMATS, ids=["arrow", "parquet"])
@pytest.mark.parametrize("used", ["wide", "inner"])
def test_a_column_that_has_or_contains_one_is_refused(
    form: Arrow | Parquet, name: str, used: str
) -> None:
    columns = ColumnSelection(fed=("id",), copied=(used,))
    with pytest.raises(
        InputError, match=f"column '{used}' is of integers of 128 bits, which is not read"
    ):
        schema_of([file_of(FILES / name)], type(form)(columns).schema, columns, SchemaRules({}))


@pytest.mark.parametrize(
    "content", [b"", b"ARROW1", b"ARROW1\0\0" + b"\xff" * 40 + b"ARROW1", b"PAR1" + b"\0" * 20]
)
def test_another_file_keeps_its_error(content: bytes) -> None:
    with pytest.raises(pyarrow.ArrowNotImplementedError, match="as it was"):
        without_wide_integers(io.BytesIO(content), pyarrow.ArrowNotImplementedError("as it was"))

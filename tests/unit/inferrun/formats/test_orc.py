"""Dates of ORC in the Julian calendar, which pyarrow takes for Gregorian ones."""

from pathlib import Path

import pyarrow
import pytest

from inferrun.formats.orc import Orc
from inferrun.plugins import Chunk, ColumnSelection, Limits
from inferrun_runner.stores.file.local_files import MemoryFile

SPARK = MemoryFile("spark.orc", Path(__file__).with_name("julian.orc").read_bytes())
"""As Spark 4.1.1 writes `select date'0001-01-01' a, date'1500-03-01' b, timestamp'1969-12-31
23:59:59.5' t`."""


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_julian_date_is_an_error_of_its_record(name: str) -> None:
    schema = pyarrow.schema([(name, pyarrow.date32())])
    reader = Orc(ColumnSelection(copied=(name,), takes_any=True), schema)
    (block,) = reader.read(SPARK, Chunk(0, 0, 0, 1, 0, 1), limits=Limits())
    assert (
        block.errors[0].message
        == f"spark.orc, row 1: the value of column {name!r} is not of type date32[day]"
    )

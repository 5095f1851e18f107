"""Lines of numbers are read a block at a time, as they are cell by cell."""

import csv
import math
from collections.abc import Iterator
from typing import Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun.formats.csv.format import CSV
from inferrun.formats.number_text import number_of
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import Block, Chunk, InputError, Limits
from inferrun_runner.stores.file.local_files import MemoryFile

CELLS: Final = ("0", "1", "-0.0", "5.1", "1e3", "-2.5E+10", str(1 << 64), " 7", "8 ")
ODD_CELLS: Final = (
    *CELLS, "", "NaN", "nan", "null", "+1", ".5", "007", "1.", '"1"', '"1,2"', "[1]", "1]", "[1", "1 2", "inf", "x", "e", "-",
    "1\r2",
)  # fmt: skip
IDS: Final = ("a", "007", "", " a", "é", '"a,b"', "[", "null", "%d")


@st.composite
def tables(draw: st.DrawFn) -> list[str]:
    """Lines with an id in the middle and two numbers, of which one may be something else."""
    lines = ["x,custom_id,y"]
    for _ in range(draw(st.integers(1, 5))):
        x, y = draw(st.sampled_from(CELLS)), draw(st.sampled_from(CELLS))
        if draw(st.integers(0, 4)) == 0:
            x = draw(st.sampled_from(ODD_CELLS))
        lines.append(
            ",".join(
                [x, draw(st.sampled_from(IDS)), y, *([""] if draw(st.integers(0, 20)) == 0 else [])]
            )
        )
    return lines


BAD: Final = "not valid"


def cell_by_cell(lines: list[str]) -> tuple[list[object], list[object]] | None:
    """Rows, of which some may be BAD, and ids; None if the quotes of a line do not match. The
    reference."""
    rows: list[object] = []
    ids: list[object] = []
    for line in lines[1:]:
        try:
            cells = next(csv.reader([line.strip()], strict=True), [])
        except csv.Error:
            return None
        ids.append(cells[1] if len(cells) > 1 else None)
        texts = [cells[0].strip(), cells[-1].strip()]
        values = [number_of(text) if text else 0 for text in texts]
        pairs = zip(texts, values, strict=True)
        row = [
            None if not text or (value is not None and math.isnan(value)) else value
            for text, value in pairs
        ]
        rows.append(BAD if len(cells) != 3 or None in values else row)
    return rows, ids


def rows_of(block: Block) -> list[object]:
    """The records of a block, of which some may be BAD."""
    return [
        BAD if at in block.errors else orjson.loads(text)
        for at, text in enumerate(json_texts(block.records))
    ]


def read(content: bytes, chunk: Chunk) -> Iterator[Block]:
    return CSV.read(MemoryFile("a.csv", content), chunk, limits=Limits())


@settings(max_examples=200)
@given(tables(), st.sampled_from(["\n", "\r\n"]))
def test_a_table_is_read_as_it_is_cell_by_cell(lines: list[str], end: str) -> None:
    content = "".join(line + end for line in lines).encode()
    chunk = Chunk(index=0, unit=0, start=0, end=len(content), first=0, records=1)
    expected = cell_by_cell(lines)
    if expected is None:
        with pytest.raises(InputError):
            list(read(content, chunk))
        return
    (block,) = read(content, chunk)
    assert (rows_of(block), block.ids) == expected
    assert block.columns == ["x", "y"] or all(row == BAD for row in expected[0])


@settings(max_examples=200)
@given(tables(), st.sampled_from(["\n", "\r\n"]))
def test_a_table_without_ids_is_read_as_it_is_cell_by_cell(lines: list[str], end: str) -> None:
    expected = cell_by_cell(
        [",".join([line.split(",")[0], "a", line.split(",")[-1]]) for line in lines]
    )
    content = "".join(f"{line.split(',')[0]},{line.split(',')[-1]}{end}" for line in lines).encode()
    header = content.index(b"\n") + 1
    chunk = Chunk(index=0, unit=0, start=header, end=len(content), first=0, records=1)
    if expected is None:
        with pytest.raises(InputError):
            list(read(content, chunk))
        return
    (block,) = read(content, chunk)
    assert rows_of(block) == expected[0]

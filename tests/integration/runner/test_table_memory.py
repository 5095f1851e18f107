"""The memory of reading a table does not depend on the size of its row groups and record
batches."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyarrow import ipc, orc, parquet

from tests.integration.runner.pods import REPOSITORY

ROWS, COLUMNS = 1_000_000, 16

LIMIT = 110 + 2 * COLUMNS * 1.5
"""MiB: the process with pyarrow, and the pages of the columns, twice."""


def batches(rows: int) -> Iterator[pyarrow.RecordBatch]:
    """Rows whose values compress badly, without holding all of them."""
    import numpy  # noqa: PLC0415

    values = numpy.random.default_rng(1)
    yield pyarrow.record_batch({f"c{at}": values.random(rows) for at in range(COLUMNS)})


async def peak_of(name: str, path: Path, *, chunk_bytes: int) -> float:
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "tests.integration.runner.reading_process",
            name,
            str(path),
            str(chunk_bytes),
        ),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    records, peak = out.decode().split()
    assert int(records) == ROWS
    return float(peak)


async def test_a_row_group_is_not_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    (rows,) = batches(ROWS)
    with parquet.ParquetWriter(path, rows.schema, use_dictionary=False) as out:
        out.write_batch(rows, row_group_size=ROWS)
    assert await peak_of("parquet", path, chunk_bytes=0) < LIMIT


@pytest.mark.thorough
async def test_a_record_batch_is_not_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    (rows,) = batches(ROWS)
    with ipc.new_file(str(path), rows.schema) as out:
        out.write_batch(rows)
    assert await peak_of("arrow", path, chunk_bytes=0) < LIMIT


@pytest.mark.thorough
async def test_a_stripe_is_not_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.orc"
    (rows,) = batches(ROWS)
    with orc.ORCWriter(str(path), stripe_size=1 << 30) as out:
        out.write(pyarrow.Table.from_batches([rows]))
    assert orc.ORCFile(path).nstripes == 1
    assert await peak_of("orc", path, chunk_bytes=0) < LIMIT + 16  # pyarrow.dataset, too

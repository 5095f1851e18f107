"""Files with columns that are damaged, or that were made to deceive the library that reads them."""

import io
import random
import struct
from pathlib import Path

import pyarrow
import pytest
from pyarrow import ipc, orc, parquet

from inferrun.formats.arrow.format import ARROW
from inferrun.formats.orc import ORC
from inferrun.formats.parquet.format import PARQUET
from inferrun.plugins import Chunk, InputError, Limits, RecordFormat
from tests.unit.runner.batches import decoded, file_of

ROWS = 60
TABLE = pyarrow.table(
    {
        "a": [0.5 * row for row in range(ROWS)],
        "custom_id": [f"id {row}" for row in range(ROWS)],
        "b": [None, 1, 2] * 20,
    }
)
LIMITS = Limits()


def arrow_file(compression: str | None = None) -> bytes:
    out = io.BytesIO()
    with ipc.new_file(
        out, TABLE.schema, options=ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(TABLE)
    return out.getvalue()


def parquet_file(compression: str = "snappy") -> bytes:
    out = io.BytesIO()
    parquet.write_table(TABLE, out, compression=compression, row_group_size=ROWS // 2)
    return out.getvalue()


def orc_file() -> bytes:
    out = io.BytesIO()
    orc.write_table(TABLE, out, compression="zstd")
    return out.getvalue()


FILES: dict[str, tuple[RecordFormat, bytes]] = {
    "arrow": (ARROW, arrow_file()),
    "arrow with lz4": (ARROW, arrow_file("lz4")),
    "arrow with zstd": (ARROW, arrow_file("zstd")),
    "orc": (ORC, orc_file()),
    "parquet": (PARQUET, parquet_file()),
    "parquet with zstd": (PARQUET, parquet_file("zstd")),
}


def read_all(record_format: RecordFormat, path: Path) -> int:
    """Read the file as a run does; returns the number of records. Raises InputError."""
    file, count = file_of(path), 0
    for piece in record_format.plan(file, chunk_bytes=1, limits=LIMITS):
        chunk = Chunk(0, 0, piece.start, piece.end, 0, piece.records)
        for block in record_format.read(file, chunk, limits=LIMITS):
            count += len(decoded(block))
    return count


def outcome_of(record_format: RecordFormat, path: Path) -> str:
    try:
        read_all(record_format, path)
    except InputError as error:
        if error.is_retryable:
            return "is retried"
        return (
            "rows cannot be read"
            if "cannot be read as" in str(error)
            else "rows has another column"
        )
    except ValueError as error:  # a run compares the types of the columns before it reads them
        if "only numbers and booleans are allowed" not in str(error):
            raise
        return "rows has another column"
    return "read"


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_an_error_of_the_input(tmp_path: Path, kind: str) -> None:
    record_format, whole = FILES[kind]
    path = tmp_path / "rows"
    path.write_bytes(whole)
    assert read_all(record_format, path) == ROWS
    chance = random.Random(kind)  # noqa: S311  the same bytes each time
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 2, 8))):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 0x7F, 0x80, 0xFF))
        path.write_bytes(damaged)
        outcomes.add(outcome_of(record_format, path))
    assert outcomes <= {"read", "rows cannot be read", "rows has another column"}, outcomes
    assert "rows cannot be read" in outcomes


@pytest.mark.parametrize("rows", [6000, 1_000_000_000, 2**62])
def test_a_batch_with_more_rows_than_values_is_rejected(tmp_path: Path, rows: int) -> None:
    """Otherwise the memory behind the values would be sent to the model, or the process would be
    killed."""
    path = tmp_path / "rows.arrow"
    path.write_bytes(arrow_file().replace(struct.pack("<q", ROWS), struct.pack("<q", rows)))
    with pytest.raises(InputError, match="cannot be read as an Arrow IPC file"):
        read_all(ARROW, path)


@pytest.mark.parametrize("declared", [1 << 33, 1 << 62])
def test_a_compressed_column_that_declares_another_size_is_rejected(
    tmp_path: Path, declared: int
) -> None:
    path = tmp_path / "rows.arrow"
    whole, size = arrow_file("zstd"), struct.pack("<q", ROWS * 8)
    assert size in whole
    path.write_bytes(whole.replace(size, struct.pack("<q", declared)))
    with pytest.raises(InputError, match="cannot be read as an Arrow IPC file"):
        read_all(ARROW, path)

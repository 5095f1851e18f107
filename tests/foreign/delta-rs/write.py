"""polars and delta-rs: tables of Delta with the types that polars has, appended to, overwritten in
part and with deleted rows."""

import base64
import json
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import polars as pl
from deltalake import DeltaTable

OUT = Path(sys.argv[1]).resolve()
FILES = OUT / "files"
FILES.mkdir(parents=True)

FRAME = pl.DataFrame(
    {
        "id": pl.Series([1, 2, 3], dtype=pl.Int64),
        "i8": pl.Series([-128, None, 127], dtype=pl.Int8),
        # Delta has no unsigned integers: those over 2147483647 are refused.
        "u32": pl.Series([2147483647, None, 0], dtype=pl.UInt32),
        "f32": pl.Series([0.1, None, float("inf")], dtype=pl.Float32),
        "dec": pl.Series(
            [Decimal("1234567890123456789.25"), None, Decimal("-0.5")], dtype=pl.Decimal(38, 2)
        ),
        "text": ["", None, 'é "q"\n'],
        "day": [date(9999, 12, 31), None, date(1, 1, 1)],
        "naive": [datetime(2024, 2, 29, 12, 34, 56, 123456), None, datetime(1900, 1, 1)],
        "utc": [
            datetime(2024, 2, 29, 12, 34, 56, 123456, tzinfo=UTC),
            None,
            datetime(9999, 12, 31, tzinfo=UTC),
        ],
        "raw": [b"\x00\xff", None, b""],
        "list": pl.Series([[1, None], [], None], dtype=pl.List(pl.Int32)),
        "place": [{"a": 1, "b": "x"}, None, {"a": None, "b": ""}],
    },
)


def shown(value):
    """The forms of expected.json."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [shown(one) for one in value]
    return (
        value.isoformat()
        if isinstance(value, date | datetime | time)
        else str(value)
        if isinstance(value, Decimal)
        else value
    )


def finished(name):
    rows = pl.read_delta(str(FILES / name)).sort("id").to_dicts()
    return [{key: shown(value) for key, value in row.items()} for row in rows]


def make(name, write):
    write(str(FILES / name))
    expected[name] = finished(name)


def changed(path):
    """Rows in several files, of which some were deleted, updated and merged, and a column that was
    added."""
    few = FRAME.select("id", "text", "f32")
    few.write_delta(path, delta_write_options={"partition_by": ["id"]})
    table = DeltaTable(path)
    table.delete("id = 2")
    table.update(updates={"text": "'new'"}, predicate="id = 3")
    more = FRAME.select(pl.col("id") + 10, "text", pl.col("day").alias("added"))
    more.write_delta(path, mode="append", delta_write_options={"schema_mode": "merge"})


expected = {}
make("types.delta", FRAME.write_delta)
make("changed.delta", changed)
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")

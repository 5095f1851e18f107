"""polars: its types in Arrow and Parquet with its defaults, and what it reads there."""

import json
import sys
from base64 import b64encode
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import polars as pl

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)

animal = pl.Enum(["cat", "dog"])
frame = pl.DataFrame(
    {
        "id": [0, 1, 2],
        "s": ["", None, "é, longer than a view's twelve bytes"],
        "cat": pl.Series(["a", "b", None], dtype=pl.Categorical),
        "en": pl.Series(["cat", "dog", "cat"], dtype=animal),
        "cats": pl.Series([["a", None], [], None], dtype=pl.List(pl.Categorical)),
        "ens": pl.Series(
            [{"x": "dog", "n": 1}, {"x": None, "n": 2}, None],
            dtype=pl.Struct({"x": animal, "n": pl.Int8}),
        ),
        "u64": pl.Series([0, 2**64 - 1, 2**63], dtype=pl.UInt64),
        "f32": pl.Series([0.1, float("inf"), None], dtype=pl.Float32),
        "dec": pl.Series(
            [Decimal("0.10"), Decimal("-123456789012345678901234567890.12"), None],
            dtype=pl.Decimal(38, 2),
        ),
        "bin": [b"\xff\x00", b"text", None],
        "d": [date(1, 1, 1), date(9999, 12, 31), None],
        "us": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None],
        "ns": pl.Series([0, -1, 1767323045123456789]).cast(pl.Datetime("ns")),
        "zoned": pl.Series([0, 1, None]).cast(pl.Datetime("ms", "America/New_York")),
        "t": [time(0), time(23, 59, 59, 999999), None],
        "array": pl.Series([[1.0, 2.0], None, [0.5, None]], dtype=pl.Array(pl.Float64, 2)),
        "deep": [[[1], []], None, [[2, 3]]],
        "none": pl.Series([None, None, None], dtype=pl.Null),
    }
)
wide = pl.DataFrame(
    {
        "id": [0, 1, 2],
        "wide": pl.Series([0, 2**127 - 1, -(2**127)], dtype=pl.Int128),
        "inner": pl.Series([[1], None, []], dtype=pl.List(pl.Int128)),
        "cat": pl.Series(["a", "b", None], dtype=pl.Categorical),
    }
)


def exact(value: object) -> object:
    """Return a value of Python as JSON."""
    if isinstance(value, bytes):
        return {"b64": b64encode(value).decode()}
    if isinstance(value, (date, datetime, time, Decimal)):
        return str(value)
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, (list, pl.Series)):
        return [exact(one) for one in value]
    return {name: exact(one) for name, one in value.items()} if isinstance(value, dict) else value


expected = {}
for name, given in (("types", frame), ("wide", wide)):
    given.write_ipc(FILES / f"{name}.arrow")
    given.write_parquet(FILES / f"{name}.parquet")
    for path, read in ((f"{name}.arrow", pl.read_ipc), (f"{name}.parquet", pl.read_parquet)):
        # with all digits
        texts = [pl.col(one).cast(pl.String) for one in ("ns", "f32") if one in given.columns]
        expected[path] = [exact(row) for row in read(FILES / path).with_columns(texts).to_dicts()]
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")

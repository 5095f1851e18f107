"""fastparquet: the types of a frame of pandas by default, times as INT96, and a folder with a file
for each group of rows."""

import base64
import json
import sys
from pathlib import Path

import fastparquet
import numpy as np
import pandas as pd

OUT = Path(sys.argv[1]).resolve()
FILES = OUT / "files"
FILES.mkdir(parents=True)
TIMES = ["2024-02-29 12:34:56.123456789", None, "1900-01-01"]

FRAME = pd.DataFrame(
    {
        "id": np.array([1, 2, 3], "int64"),
        "text": ["", 'é "q"\n', None],
        "raw": [b"\x00\xff", b"", None],
        "flag": [True, None, False],
        "f32": np.array([0.1, np.nan, np.inf], "float32"),
        "f64": [0.1, 1e300, -0.0],
        "when": pd.to_datetime(TIMES, format="mixed"),
        "utc": pd.to_datetime(
            ["2024-02-29 12:34:56.123456", None, "2262-01-01"], utc=True, format="mixed"
        ),
        "cat": pd.Categorical(["a", None, "b"]),
        "int": pd.array([1, None, 2**53 + 1], dtype="Int64"),
        "u8": pd.array([255, None, 0], dtype="UInt8"),
        "obj": [{"a": 1}, None, {"a": [1]}],
    }
)


def shown(value):
    """The forms of expected.json."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return value
    # NaN is stored as null, and a null of any type read as NaN: pandas has no other in such
    # columns.
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value


def read(name):
    frame = fastparquet.ParquetFile(str(FILES / name)).to_pandas(index=False)
    cells = zip(*map(frame.get, frame), strict=True)
    return [{key: shown(value) for key, value in zip(frame, row, strict=True)} for row in cells]


fastparquet.write(str(FILES / "types.parquet"), FRAME, compression="GZIP")
fastparquet.write(str(FILES / "int96.parquet"), FRAME[["id", "when"]], times="int96")
fastparquet.write(
    str(FILES / "groups.parquet"),
    FRAME[["id", "text", "cat"]],
    file_scheme="hive",
    row_group_offsets=2,
)
expected = {name: read(name) for name in ("types.parquet", "int96.parquet", "groups.parquet")}
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")

"""pandas: frames with indexes, categories, times and missing values in Parquet and Feather, and
what it reads there."""

import json
import sys
from pathlib import Path

import pandas as pd

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)

frame = pd.DataFrame(
    {
        "a": [1.0, 2.0, 3.0, None],
        "s": ["", None, "é", "x"],
        "c": pd.Categorical(["low", "high", None, "low"], ordered=True),
        "n": pd.array([1, None, 2**53 + 1, -1], dtype="Int64"),
        "b": pd.array([True, None, False, True], dtype="boolean"),
        "t": pd.to_datetime(
            ["0001-01-01", "9999-12-31T23:59:59.999999", None, "2026-01-02"], format="ISO8601"
        ).astype("datetime64[us]"),
        "zoned": pd.to_datetime(
            [
                "2026-01-02T03:04:05.123456789Z",
                None,
                "1970-01-01T00:00:00Z",
                "2026-07-01T00:00:00Z",
            ],
            format="ISO8601",
        ).tz_convert("Europe/Rome"),
    }
)
frames = {
    "filtered.parquet": frame[frame.a != 2],
    "named.parquet": frame.set_index(pd.Index([7, 9, 20, 21], name="key")),
    "levels.parquet": frame.set_index(
        pd.MultiIndex.from_tuples([(1, "x"), (1, "y"), (2, "x"), (2, "y")], names=["k", None])
    ),
    "plain.feather": frame,
}
expected = {}
for name, given in frames.items():
    write, read = (
        (given.to_feather, pd.read_feather)
        if name.endswith("feather")
        else (given.to_parquet, pd.read_parquet)
    )
    write(FILES / name)
    found = read(FILES / name)
    if not isinstance(found.index, pd.RangeIndex):
        found = found.reset_index(
            names=[one or f"__index_level_{at}__" for at, one in enumerate(found.index.names)]
        )
    rows = found.astype(object).where(found.notna(), None).to_dict("records")
    expected[name] = [
        {key: str(one) if isinstance(one, pd.Timestamp) else one for key, one in row.items()}
        for row in rows
    ]
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")

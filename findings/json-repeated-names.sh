#!/usr/bin/env bash
# JSON lines whose objects have a name twice, which RFC 8259 allows and leaves open: polars 2.1.0 takes the first value, pandas 3.1.1
# and Python's json the last one, without a word; DuckDB 2.0.1 and pyarrow 26.0.1 raise an error.
# Output: polars [1], pandas [2], json [2], duckdb InvalidInputException, pyarrow ArrowInvalid
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 pandas==3.1.1 duckdb==2.0.1 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json

import duckdb
import pandas
import polars
import pyarrow
from pyarrow import json as arrow_json

print(f"polars {polars.__version__}, pandas {pandas.__version__}, duckdb {duckdb.__version__}, pyarrow {pyarrow.__version__}")
with open("rows.jsonl", "w") as out:
    out.write("""{"a": 1, "b": 0, "a": 2}\n""")
readers = {
    "polars": lambda: polars.read_ndjson("rows.jsonl")["a"].to_list(),
    "pandas": lambda: pandas.read_json("rows.jsonl", lines=True)["a"].tolist(),
    "json": lambda: [json.loads(line)["a"] for line in open("rows.jsonl")],
    "duckdb": lambda: duckdb.sql("select a from read_json('rows.jsonl')").fetchall(),
    "pyarrow": lambda: arrow_json.read_json("rows.jsonl")["a"].to_pylist(),
}
found = {}
for name, read in readers.items():
    try:
        found[name] = str(read())
    except Exception as error:
        found[name] = type(error).__name__
print(", ".join(f"{name} {value}" for name, value in found.items()))
assert list(found.values()) == ["[1]", "[2]", "[2]", "InvalidInputException", "ArrowInvalid"]
PYTHON

#!/usr/bin/env bash
# DuckDB 2.0.1: COPY to JSON writes NaN and infinity as bare words, which JSON does not have (RFC 8259, section 6), without an error.
# DuckDB reads the file again; orjson and other strict parsers refuse the line. PostgreSQL and Spark write them as strings.
# Output: {"a":NaN,"b":-Infinity}: DuckDB nan and -inf; orjson JSONDecodeError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 orjson==3.13.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from pathlib import Path

import duckdb
import orjson

print(f"DuckDB {duckdb.__version__}, orjson {orjson.__version__}")
duckdb.sql("copy (select 'nan'::double a, '-inf'::double b) to 'rows.json'")
text = Path("rows.json").read_text().strip()
((a, b),) = duckdb.sql("from read_json('rows.json')").fetchall()
try:
    orjson.loads(text)
    other = "reads it"
except orjson.JSONDecodeError as error:
    other = type(error).__name__
print(f"{text}: DuckDB {a} and {b}; orjson {other}")
assert text == '{"a":NaN,"b":-Infinity}' and a != a and b == float("-inf") and other == "JSONDecodeError"
PYTHON

#!/usr/bin/env bash
# ClickHouse 26.9.2.1 (chdb 4.4.0) writes a Point to Parquet as the bytes of WKB, and annotates the column as String.
#
# Its metadata `geo` is that of GeoParquet 1.0.0, whose geometry columns are BYTE_ARRAY. Parquet's String is UTF-8, which WKB is not, so readers
# that believe the annotation fail: pyarrow 26.0.1 raises UnicodeDecodeError where values are taken out of the column, not where it
# is read. ClickHouse reads the file as Points.
#
# Seen: required binary pt (String); UnicodeDecodeError
# Exits with 0 if this is still so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check chdb==4.4.0 pyarrow==26.0.1
cd "$work"
"$work/venv/bin/python" - <<'PY'
import json

import chdb
import pyarrow
from pyarrow import parquet

print("ClickHouse", chdb.query("select version()").data().strip(), "pyarrow", pyarrow.__version__)
chdb.query("select (1.5, 2.0)::Point as pt into outfile 'points.parquet' format Parquet")
file = parquet.ParquetFile("points.parquet")
print(file.schema.column(0).logical_type, json.loads(file.metadata.metadata[b"geo"]))
print("by ClickHouse:", chdb.query("select pt from file('points.parquet')", "JSONEachRow").data().strip())
assert str(file.schema.column(0).logical_type) == "String"
column = file.read().column("pt")
try:
    column.to_pylist()
except UnicodeDecodeError as error:
    print("by pyarrow:", error)
else:
    raise SystemExit("the values are text now")
PY

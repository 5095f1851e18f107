#!/usr/bin/env bash
# DuckDB 2.0.1: the sum of a BIGINT column is a HUGEINT, and COPY stores a HUGEINT in Parquet as DOUBLE, without an error. A sum that
# is exact in the query loses its last digits in the file; a cast to BIGINT or DECIMAL(38, 0) in the query keeps them.
# Output: query 9007199254740993 (HUGEINT), file 9007199254740992.0 (DOUBLE), with a cast 9007199254740993 (BIGINT)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb

print("duckdb", duckdb.__version__)
base = duckdb.connect()
base.execute("create table t as select unnest([9007199254740992, 1])::bigint as i")
base.execute("copy (select sum(i) as s from t) to 'sum.parquet' (format parquet)")
base.execute("copy (select sum(i)::bigint as s from t) to 'cast.parquet' (format parquet)")
query, kind = base.execute("select sum(i), typeof(sum(i)) from t").fetchall()[0]
stored, stored_kind = base.execute("select s, typeof(s) from 'sum.parquet'").fetchall()[0]
kept, kept_kind = base.execute("select s, typeof(s) from 'cast.parquet'").fetchall()[0]
print(f"query {query} ({kind}), file {stored} ({stored_kind}), with a cast {kept} ({kept_kind})")
assert (query, kind) == (9007199254740993, "HUGEINT")
assert (stored, stored_kind) == (9007199254740992.0, "DOUBLE")
assert (kept, kept_kind) == (9007199254740993, "BIGINT")
PYTHON

#!/usr/bin/env bash
# ClickHouse 26.9.2.1 (chdb 4.4.0) writes a Date after 2059-09-18 to ORC as a date before 1970.
#
# A Date counts days in 16 bits without a sign (1970-01-01 to 2149-06-06). In ORC, the number is taken as one with a sign: 32768 and more
# days become negative. Parquet and Arrow get the right dates, and Date32 is right in ORC. Nothing is reported.
#
# Seen: 2059-09-18 in ORC is 2059-09-18; 2059-09-19 is 1880-04-14; 2149-06-06 is 1969-12-31 (read by ClickHouse and by pyarrow).
# Exits with 0 if this is still so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check chdb==4.4.0 pyarrow==26.0.1
cd "$work"
"$work/venv/bin/python" - <<'PY'
import chdb
from pyarrow import orc, parquet

print("ClickHouse", chdb.query("select version()").data().strip())
days = "['2059-09-18', '2059-09-19', '2149-06-06']"
table = f"select arrayJoin({days})::Date as d, d::Date32 as d32"
for name in ("ORC", "Parquet"):
    chdb.query(f"{table} into outfile 'dates.{name}' format {name}")
found = orc.ORCFile("dates.ORC").read()
own = chdb.query("select d from file('dates.ORC', ORC)", "CSV").data().replace('"', "").split()
seen = [str(day) for day in found.column("d").to_pylist()]
right = ["2059-09-18", "2059-09-19", "2149-06-06"]
print("ORC, Date, by pyarrow:    ", seen)
print("ORC, Date, by ClickHouse: ", own)
print("ORC, Date32, by pyarrow:  ", [str(day) for day in found.column("d32").to_pylist()])
print("Parquet, Date, by pyarrow:", [str(day) for day in parquet.read_table("dates.Parquet").column("d").to_pylist()])
assert seen == own == ["2059-09-18", "1880-04-14", "1969-12-31"]
assert [str(day) for day in found.column("d32").to_pylist()] == right
assert [str(day) for day in parquet.read_table("dates.Parquet").column("d").to_pylist()] == right
PY

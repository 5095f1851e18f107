#!/usr/bin/env bash
# fastparquet 2026.9.0 with times="int96" stores datetimes in microseconds, the default of pandas 3.1.1, as if they were nanoseconds.
#
# 2024-02-29 12:34:56 becomes 1970-01-20 18:46:50.096, without an error, for fastparquet's own reader and for pyarrow's. Columns in
# nanoseconds are right, and so is the default, times="int64".
#
# Seen: us 1970-01-20 18:46:50.096000; ns 2024-02-29 12:34:56
# Exits with 0 if this is still so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check fastparquet==2026.9.0 pandas==3.1.1 pyarrow==26.0.1
cd "$work"
"$work/venv/bin/python" - <<'PY'
import fastparquet
import pandas
from pyarrow import parquet

print("fastparquet", fastparquet.__version__, "pandas", pandas.__version__)
given = pandas.to_datetime(["2024-02-29 12:34:56"])
print("pandas' unit by default:", given.unit)
seen = {}
for unit in ("us", "ns"):
    frame = pandas.DataFrame({"t": given.as_unit(unit)})
    fastparquet.write("t.parquet", frame, times="int96")
    own = fastparquet.ParquetFile("t.parquet").to_pandas()["t"][0]
    other = parquet.read_table("t.parquet").column("t")[0].as_py()
    print(unit, "by fastparquet", own, "by pyarrow", other)
    seen[unit] = {str(own)[:19], str(other)[:19]}
assert given.unit == "us"
assert seen == {"us": {"1970-01-20 18:46:50"}, "ns": {"2024-02-29 12:34:56"}}
PY

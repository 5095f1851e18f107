#!/usr/bin/env bash
# fastparquet 2026.9.0: a column of timedelta64 is stored as TIME, a time of day, which other readers take at its word. Two days and
# minus one day are 00:00:00 for pyarrow 26.0.1; fastparquet itself, and pandas with it, read the durations.
# Output: fastparquet 2 days and -1 days; pyarrow (time64[us]) 00:00:00 and 00:00:00
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastparquet==2026.9.0 pandas==3.1.1 pyarrow==26.0.1 duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import fastparquet
import pandas
import pyarrow
from pyarrow import parquet

print(f"fastparquet {fastparquet.__version__}, pandas {pandas.__version__}, pyarrow {pyarrow.__version__}")
frame = pandas.DataFrame({"took": pandas.to_timedelta([2, -1], unit="D")})
fastparquet.write("took.parquet", frame)
own = fastparquet.ParquetFile("took.parquet").to_pandas()["took"]
other = parquet.read_table("took.parquet")["took"]
print(f"fastparquet {own[0].days} days and {own[1].days} days; pyarrow ({other.type}) " + " and ".join(map(str, other.to_pylist())))
assert own.tolist() == frame["took"].tolist()
assert str(other.type) == "time64[us]" and [str(one) for one in other.to_pylist()] == ["00:00:00", "00:00:00"]
assert other.cast(pyarrow.int64()).to_pylist() == [172800000000, -86400000000]
PYTHON

#!/usr/bin/env bash
# Dask 2026.8.0: to_parquet names its files part.0 to part.11, without leading zeros. Dask sorts them by number, pandas 2.3.3 and
# pyarrow 26.0.1 by name, so with more than ten partitions they return the rows in another order; to_csv adds the zeros.
# Output: dask 0 1 2 … 10 11; pandas 0 1 10 11 2 …; pyarrow 0 1 10 11 2 …
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "dask[dataframe]==2026.8.0" pandas==2.3.3 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import dask
import dask.dataframe
import pandas
import pyarrow
from pyarrow import parquet

print(f"dask {dask.__version__}, pandas {pandas.__version__}, pyarrow {pyarrow.__version__}")
frame = dask.dataframe.from_pandas(pandas.DataFrame({"i": range(12)}), npartitions=12)
frame.to_parquet("out", write_index=False)
own = dask.dataframe.read_parquet("out").compute()["i"].tolist()
others = [pandas.read_parquet("out")["i"].tolist(), parquet.read_table("out")["i"].to_pylist()]
for name, rows in zip(("dask", "pandas", "pyarrow"), (own, *others)):
    print(name, *rows)
assert own == list(range(12))
assert others == [[0, 1, 10, 11, *range(2, 10)]] * 2
PYTHON

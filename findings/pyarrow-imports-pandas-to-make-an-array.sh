#!/usr/bin/env bash
# pyarrow 26.0.1 beside pandas 3.1.1: the first pyarrow.array() imports pandas if that is installed, whatever it is given: a list, or
# an array of numpy. Nothing of pandas is asked for, and without it in the environment the same program misses nothing. A program that
# only writes columns pays for the import (0.3 s and 60 MiB where this was found), and a measurement in an environment for
# development says more than the same program takes where it is deployed.
# Output: imported, columns read and cast: False; an array made: True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import io
import sys

import pyarrow
from pyarrow import csv

read = csv.read_csv(io.BytesIO(b"n\n1\n2\n")).column("n").cast(pyarrow.float64())
before = "pandas" in sys.modules
print("imported, columns read and cast:", before)
assert pyarrow.array([1.0, 2.0]).equals(read.combine_chunks())
after = "pandas" in sys.modules
print("an array made:", after)
assert (before, after) == (False, True)
PYTHON

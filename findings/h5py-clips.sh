#!/usr/bin/env bash
# h5py 3.16.0: numbers that are assigned to a dataset of another type are converted by HDF5, which clips them to the range of the
# type, takes NaN for 0 and drops fractions, without an error. numpy raises OverflowError for 300, or wraps it to 44 with astype.
# Output: [300.0, -1.0, 3.9, nan] as uint8 is [255, 0, 3, 0]; [300] with astype is [44]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check h5py==3.16.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import h5py
import numpy as np

print(f"h5py {h5py.__version__}, numpy {np.__version__}")
values = np.array([300.0, -1.0, 3.9, np.nan])
with h5py.File("a.h5", "w") as file:
    scores = file.create_dataset("scores", values.shape, "uint8")
    scores[...] = values
    stored = scores[...].tolist()
wrapped = np.array([300]).astype("uint8").tolist()
print(f"{values.tolist()} as uint8 is {stored}; [300] with astype is {wrapped}")
assert (stored, wrapped) == ([255, 0, 3, 0], [44])
try:
    np.array([300], dtype="uint8")
    raise SystemExit("numpy accepts 300")
except OverflowError:
    pass
PYTHON

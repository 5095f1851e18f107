#!/usr/bin/env bash
# safetensors 0.8.0 with numpy 2.4.6: save_file stores a transposed array in the order of its memory, with the shape of the transposed
# one, without an error. load_file returns other values than were saved; np.ascontiguousarray before save_file avoids it.
# Output: saved [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], loaded [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

weights = np.arange(6, dtype="float32").reshape(2, 3).T
save_file({"w": weights, "copy": np.ascontiguousarray(weights)}, "w.safetensors")
loaded = load_file("w.safetensors")
print(f"safetensors {safetensors.__version__}, numpy {np.__version__}")
print(f"saved {weights.tolist()}, loaded {loaded['w'].tolist()}")
assert loaded["copy"].tolist() == weights.tolist() == [[0, 3], [1, 4], [2, 5]]
assert loaded["w"].tolist() == [[0, 1], [2, 3], [4, 5]]
PYTHON

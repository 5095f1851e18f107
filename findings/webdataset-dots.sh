#!/usr/bin/env bash
# webdataset 1.0.2: the key of a sample ends at the first dot of the file name. Consecutive files of a tar whose names differ only after
# a dot, such as those of two versions, become one sample, without an error: three images are read as two samples.
# Output: 3 files, 2 samples: v1 with 0_cat.txt and 0_dog.txt, v2 with 0_eel.txt
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check webdataset==1.0.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import io
import tarfile
from importlib.metadata import version

import webdataset

files = {"v1.0_cat.txt": b"cat", "v1.0_dog.txt": b"dog", "v2.0_eel.txt": b"eel"}
with tarfile.open("shard.tar", "w") as tar:
    for name, content in files.items():
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
samples = [
    (one["__key__"], sorted(name for name in one if not name.startswith("__")))
    for one in webdataset.WebDataset("shard.tar", shardshuffle=False)
]
print("webdataset", version("webdataset"))
print(f"{len(files)} files, {len(samples)} samples: " + ", ".join(f"{key} with {' and '.join(names)}" for key, names in samples))
assert samples == [("v1", ["0_cat.txt", "0_dog.txt"]), ("v2", ["0_eel.txt"])]
PYTHON

#!/usr/bin/env bash
# pandas 3.1.1: read_json makes numbers of JSON strings that look like some, so postal codes lose their zeros, and times of numbers in
# columns whose names end with _at, without a word. dtype=False keeps what is in the file.
# Output: by default zip [1234, 501] and retried_at 1971-04-08 23:06:47 …; with dtype=False ['01234', '00501'] and [40000007, 40000008]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import pandas

print("pandas", pandas.__version__)
with open("rows.jsonl", "w") as out:
    out.write('{"zip": "01234", "retried_at": 40000007}\n{"zip": "00501", "retried_at": 40000008}\n')
found = pandas.read_json("rows.jsonl", lines=True)
kept = pandas.read_json("rows.jsonl", lines=True, dtype=False)
for name, frame in (("by default", found), ("with dtype=False", kept)):
    print(name, {column: list(frame[column]) for column in frame})
assert list(found["zip"]) == [1234, 501]
assert str(found["retried_at"].dtype).startswith("datetime64")
assert list(kept["zip"]) == ["01234", "00501"]
assert list(kept["retried_at"]) == [40000007, 40000008]
PYTHON

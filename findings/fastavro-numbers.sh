#!/usr/bin/env bash
# fastavro 1.13.1: numbers that do not fit the schema are changed without an error when they are written. 3.9 as a long is 3,
# 1e300 as a float is infinity, and an Avro int, which has 32 bits by the specification, holds 2**40. strict=True changes nothing.
# Output: long of 3.9: 3; float of 1e300: inf; int of 2**40: 1099511627776
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastavro==1.13.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import io

import fastavro

print("fastavro", fastavro.__version__)


def stored(kind, value):
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), [{"v": value}], strict=True)
    out.seek(0)
    return [row["v"] for row in fastavro.reader(out)]


found = {"long of 3.9": stored("long", 3.9), "float of 1e300": stored("float", 1e300), "int of 2**40": stored("int", 2**40)}
print("; ".join(f"{name}: {values[0]}" for name, values in found.items()))
assert list(found.values()) == [[3], [float("inf")], [2**40]]
PYTHON

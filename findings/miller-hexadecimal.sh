#!/usr/bin/env bash
# Miller 6.6.0 (Debian 12): from CSV to JSON, a value such as 0x1F, 0b101 or .5 keeps its text and has no quotes if Miller takes it
# for a number, so the output is not JSON (RFC 8259 has no such numbers), with exit status 0. 007 is a string.
# Output: {"a": 0x1F, "b": .5, "c": 0b101, "d": "007"}, which Python's json rejects
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet miller=6.6.0-2+b3 >/dev/null
dpkg-deb --extract miller_*.deb .
printf 'a,b,c,d\n0x1F,.5,0b101,007\n' > rows.csv
usr/bin/mlr --version
usr/bin/mlr --icsv --ojsonl cat rows.csv | tee rows.jsonl
[ "$(cat rows.jsonl)" = '{"a": 0x1F, "b": .5, "c": 0b101, "d": "007"}' ]
python3 - <<'PYTHON'
import json

try:
    json.loads(open("rows.jsonl").read())
except json.JSONDecodeError as error:
    print("json:", error)
else:
    raise SystemExit("the output is JSON")
PYTHON

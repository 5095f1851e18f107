#!/usr/bin/env bash
# orjson 3.13.0: the offset of a moment before standard time, which has seconds, is rounded to minutes, and the time of day is not.
# So the text is another moment: noon of 1 January 1890 in Amsterdam, 11:40:28 UTC, becomes 11:40:00 UTC, without an error. Python's
# isoformat writes the seconds, and fromisoformat reads them.
# Output: "1890-01-01T12:00:00+00:20" is -28 seconds away; isoformat 1890-01-01T12:00:00+00:19:32
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check orjson==3.13.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json
from datetime import datetime, timedelta, timezone

import orjson

print(f"orjson {orjson.__version__}")
noon = datetime(1890, 1, 1, 12, tzinfo=timezone(timedelta(minutes=19, seconds=32)))
text = orjson.dumps(noon).decode()
away = datetime.fromisoformat(json.loads(text)) - noon
print(f"{text} is {away.total_seconds():.0f} seconds away; isoformat {noon.isoformat()}")
assert text == '"1890-01-01T12:00:00+00:20"' and away == timedelta(seconds=-28)
assert datetime.fromisoformat(noon.isoformat()) == noon
PYTHON

"""dlt: a resource with nested values, loaded to files of Parquet and JSON lines; Parquet is read by
dlt."""

import base64
import gzip
import json
import os
import shutil
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

OUT = Path(sys.argv[1]).resolve()
FILES = OUT / "files"
FILES.mkdir(parents=True)
os.environ |= {
    "DLT_DATA_DIR": str(OUT / "dlt"),
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "DESTINATION__FILESYSTEM__BUCKET_URL": str(OUT / "bucket"),
}

import dlt  # noqa: E402  reads its settings when it is imported

ROWS = [
    {
        "id": 1,
        "big": 2**63 - 1,
        "price": Decimal("123456789012345678.25"),
        "rate": 0.1,
        "text": 'é "q"\nnew line',
        "when": datetime(2024, 2, 29, 12, 34, 56, 123456, tzinfo=UTC),
        "naive": datetime(2024, 2, 29, 12, 34, 56),
        "day": date(2024, 2, 29),
        "clock": time(23, 59, 59, 999999),
        "raw": b"\x00\xff",
        "flag": True,
        "place": {"name": "x", "at": [1, 2]},
        "tags": ["a", "b"],
    },
    {"id": 2, "text": "", "rate": 1e300, "flag": False, "price": Decimal("-0.5")},
]


def shown(value):
    """The forms of expected.json."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return (
        value.isoformat()
        if isinstance(value, date | datetime | time)
        else str(value)
        if isinstance(value, Decimal)
        else value
    )


expected = {}
for form in ("parquet", "jsonl"):
    pipeline = dlt.pipeline(f"made_{form}", destination="filesystem", dataset_name=form)
    pipeline.run(ROWS, table_name="rows", loader_file_format=form)
    (made,) = (path for path in (OUT / "bucket" / form / "rows").iterdir() if path.is_file())
    name = "rows" + "".join(one for one in made.suffixes if one[1:].isalpha())
    shutil.copy(made, FILES / name)
    if form == "parquet":
        with (
            pipeline.sql_client() as client,
            client.execute_query("select * from rows order by id") as cursor,
        ):
            rows = cursor.arrow().to_pylist()
    else:
        rows = [json.loads(line) for line in gzip.decompress(made.read_bytes()).splitlines()]
    # Ids of the load and of the row are others each time.
    expected[name] = [
        {key: shown(value) for key, value in row.items() if not key.startswith("_dlt")}
        for row in rows
    ]
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
shutil.rmtree(OUT / "bucket")
shutil.rmtree(OUT / "dlt")

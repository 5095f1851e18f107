"""pyorc, over Apache ORC's C++ library: types and times in ORC, and what it reads there."""

import json
import sys
from base64 import b64encode
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyorc

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)

TYPES = (
    "struct<id:bigint,d:date,ts:timestamp,dec:decimal(38,10),c:char(5),b:binary,"
    "l:array<struct<x:double,s:string>>,m:map<string,int>>"
)
ROWS = [
    (
        0,
        date(1, 1, 1),
        datetime(1677, 9, 22),
        Decimal("1234567890123456789012345678.0123456789"),
        "ab",
        b"\xff",
        [(0.1, "é")],
        {"k": 1},
    ),
    (
        1,
        date(9999, 12, 31),
        datetime(2262, 4, 11, 1, 2, 3, 456789),
        Decimal("-0.0000000001"),
        "abcde",
        b"x",
        [],
        {},
    ),
    (2, None, None, None, None, None, None, None),
]
LATE = [(0, date(9999, 12, 31), datetime(9999, 12, 31)), (1, None, None)]


def exact(value: object) -> object:
    """Return a value of Python as JSON."""
    if isinstance(value, bytes):
        return {"b64": b64encode(value).decode()}
    if isinstance(value, (date, datetime, Decimal)):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, dict):
        return {name: exact(one) for name, one in value.items()}
    return [exact(one) for one in value] if isinstance(value, list) else value


expected = {}
for name, schema, rows in (
    ("types.orc", TYPES, ROWS),
    ("late.orc", "struct<id:bigint,d:date,ts:timestamp>", LATE),
):
    with (FILES / name).open("wb") as out, pyorc.Writer(out, schema) as writer:
        writer.writerows(rows)
    with (FILES / name).open("rb") as source:
        reader = pyorc.Reader(source, struct_repr=pyorc.StructRepr.DICT)
        expected[name] = [{key: exact(one) for key, one in row.items()} for row in reader]
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")

"""Types of columns with the values at their ends: what a run copies, feeds and chains must be what
other programs read.

Each kind has the type that DuckDB gives it, because DuckDB judges: a result, however it is written,
is cast to that type and compared with what DuckDB reads of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

FIRST, LAST = -62_135_596_800, 253_402_300_799
"""The seconds of the years 1 and 9999 at their ends, counted from 1970."""

_EARLY, _LATE = -9_223_372_036, 9_223_372_035
"""The same of what 64 bits of nanoseconds have."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of columns."""

    name: str
    arrow: pa.DataType
    values: Sequence[Any]  # Any: what pyarrow.array takes

    duckdb: str
    """What DuckDB reads it as, and casts results to."""

    fed: str = ""
    """The datatype of a V2 tensor that takes it; empty if the model cannot be fed with it."""

    shape: Sequence[int] = (-1,)
    """The shape of that tensor."""

    @property
    def nested(self) -> bool:
        """Whether values are lists, structs or maps."""
        return self.duckdb.endswith("[]") or self.duckdb.startswith(("STRUCT", "MAP"))

    @property
    def column(self) -> pa.Array:
        """The values, with a null in the end."""
        return pa.array([*self.values, None], self.arrow)


def _integers(bits: int, *, is_signed: bool) -> Kind:
    name = f"{'' if is_signed else 'u'}int{bits}"
    ends = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    sizes = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
    return Kind(
        name,
        pa.type_for_alias(name),
        [*ends, 0, 1],
        f"{'' if is_signed else 'U'}{sizes[bits]}",
        fed=name.upper(),
    )


def _moments(unit: str, zone: str | None) -> Kind:
    scale = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    first, last = (_EARLY, _LATE) if unit == "ns" else (FIRST, LAST)
    values = [first * scale, last * scale + scale - 1, 0, -1, 1_719_835_200 * scale + scale // 3]
    kind = "TIMESTAMPTZ" if zone else "TIMESTAMP_NS" if unit == "ns" else "TIMESTAMP"
    return Kind(
        f"timestamp-{unit}{'-' + zone.replace('/', '-') if zone else ''}",
        pa.timestamp(unit, zone),
        values,
        kind,
    )


TEXTS = [
    "",
    "null",
    "1",
    "NaN",
    "true",
    'say "hi", ok',
    "two\nlines",
    "tab\t \\N \\n",
    " é 😀 ",
    "[1]",
    '{"a":1}',
    "0123",
    '"1"',
]
BYTES = [b"\x00\xff", b"", b"A", b"\xc3\xa9", b'{"b64":"QQ=="}']
FLOATS = [0.1, -0.0, 1e300, 5e-324, 123456789.125, float("inf"), float("-inf"), float("nan")]

KINDS: Sequence[Kind] = (
    Kind("bool", pa.bool_(), [True, False], "BOOLEAN", fed="BOOL"),
    *(
        _integers(bits, is_signed=is_signed)
        for is_signed in (True, False)
        for bits in (8, 16, 32, 64)
    ),
    Kind("float16", pa.float16(), [0.5, -65504.0, float("nan")], "FLOAT", fed="FP16"),
    Kind(
        "float",
        pa.float32(),
        [0.1, 1.5, 3.4e38, float("inf"), float("nan"), -0.0],
        "FLOAT",
        fed="FP32",
    ),
    Kind("double", pa.float64(), FLOATS, "DOUBLE", fed="FP64"),
    Kind(
        "decimal-5-2",
        pa.decimal128(5, 2),
        list(map(Decimal, ("123.45", "-0.01", "0.00"))),
        "DECIMAL(5,2)",
        fed="FP64",
    ),
    Kind(
        "decimal-20-2",
        pa.decimal128(20, 2),
        [Decimal("123456789012345678.25"), Decimal("-1.10")],
        "DECIMAL(20,2)",
    ),
    Kind(
        "decimal-38-0", pa.decimal128(38, 0), [Decimal(10**37), Decimal(2**53 + 1)], "DECIMAL(38,0)"
    ),
    Kind(
        "decimal-38-18",
        pa.decimal128(38, 18),
        [Decimal("12345678901234567890.123456789012345678")],
        "DECIMAL(38,18)",
    ),
    Kind(
        "date",
        pa.date32(),
        [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), date(1969, 12, 31)],
        "DATE",
    ),
    Kind("time-ms", pa.time32("ms"), [0, 86_399_999, 3_600_001], "TIME"),
    Kind("time-us", pa.time64("us"), [0, 86_399_999_999, 3_600_000_001], "TIME"),
    Kind("time-ns", pa.time64("ns"), [0, 86_399_999_999_999, 3_600_000_000_001], "TIME_NS"),
    *(_moments(unit, None) for unit in ("ms", "us", "ns")),
    *(_moments(unit, "UTC") for unit in ("ms", "us")),
    _moments("us", "America/New_York"),
    Kind("string", pa.string(), TEXTS, "VARCHAR", fed="BYTES"),
    Kind("large-string", pa.large_string(), TEXTS, "VARCHAR", fed="BYTES"),
    Kind("string-view", pa.string_view(), TEXTS, "VARCHAR", fed="BYTES"),
    Kind(
        "dictionary", pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"], "VARCHAR", fed="BYTES"
    ),
    Kind("binary", pa.binary(), BYTES, "BLOB"),
    Kind("binary-4", pa.binary(4), [b"\x00\xff\x00\x01", b"abcd"], "BLOB"),
    Kind("list-int", pa.list_(pa.int32()), [[1, None, 3], [], [-(2**31)]], "INTEGER[]"),
    Kind(
        "list-double",
        pa.list_(pa.float64()),
        [[0.1, None], [], [1e300]],
        "DOUBLE[]",
        "FP64",
        (-1, -1),
    ),
    Kind("list-string", pa.list_(pa.string()), [["", None, "null"], [], ["1", '"']], "VARCHAR[]"),
    Kind(
        "list-decimal",
        pa.list_(pa.decimal128(20, 2)),
        [[Decimal("123456789012345678.25")], []],
        "DECIMAL(20,2)[]",
    ),
    Kind("list-timestamp", pa.list_(pa.timestamp("us")), [[0, None, -1], []], "TIMESTAMP[]"),
    Kind(
        "list-list",
        pa.list_(pa.list_(pa.int64())),
        [[[1], []], [], [None, [2**63 - 1]]],
        "BIGINT[][]",
    ),
    Kind("fixed-list", pa.list_(pa.float32(), 2), [[0.5, 1.5], [0.0, -1.0]], "FLOAT[]"),
    Kind(
        "struct",
        pa.struct(
            [
                ("a", pa.int64()),
                ("b", pa.string()),
                ("c", pa.decimal128(20, 2)),
                ("d", pa.timestamp("us")),
            ]
        ),
        [(2**63 - 1, "x", Decimal("123456789012345678.25"), 0), (None, "", None, -1)],
        "STRUCT(a BIGINT, b VARCHAR, c DECIMAL(20,2), d TIMESTAMP)",
    ),
    Kind(
        "map",
        pa.map_(pa.string(), pa.int32()),
        [[("k", 1), ("l", None)], []],
        "MAP(VARCHAR, INTEGER)",
    ),
)

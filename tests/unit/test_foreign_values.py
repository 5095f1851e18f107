"""The judge of files of other software: two forms of one value are equal, and no two values are."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.foreign.software import all_software, readings_in
from tests.foreign.values import canonical, plain

# Any: values of the type, and their forms in expected.json
VALUES: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "integer": (pa.uint64(), [2**64 - 1, 2**63, 0], [18446744073709551615, "9223372036854775808", 0]),
    "float": (pa.float32(), [0.1, 16777216.0, float("nan"), float("-inf")], [0.1, 16777216, "nan", "-inf"]),
    "double": (pa.float64(), [0.1, 1e300, -0.0, 0.0], [0.1, 1e300, -0.0, 0]),
    "decimal": (pa.decimal128(38, 2), [Decimal("1.50"), Decimal("123456789012345678.25")], ["1.5", "123456789012345678.25"]),
    "boolean": (pa.bool_(), [True, False], [True, False]),
    "string": (pa.large_string(), ["", "1", "é", '{"a":1}'], ["", "1", "é", {"a": 1}]),
    "bytes": (pa.binary(2), [b"ab", b"\x00\xff"], ["ab", {"b64": "AP8="}]),
    "uuid": (
        pa.uuid(),
        [bytes(16), bytes(15) + b"\x01"],
        ["00000000-0000-0000-0000-000000000000", {"b64": "AAAAAAAAAAAAAAAAAAAAAQ=="}],
    ),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)], ["0001-01-01", "9999-12-31", "2024-02-29"]),
    "date64": (pa.date64(), [date(1969, 12, 31), date(2024, 2, 29)], ["1969-12-31", "2024-02-29"]),
    "time": (pa.time32("ms"), [time(23, 59, 59, 999000), time(0)], ["23:59:59.999", "00:00"]),
    "timestamp": (
        pa.timestamp("us", "Asia/Kolkata"),
        [datetime(2024, 2, 29, 7, 4, 56, 123456, UTC), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)],
        ["2024-02-29T12:34:56.123456+05:30", "1969-12-31 23:59:59Z"],
    ),
    "list": (pa.list_(pa.int8()), [[1, None], [], [1]], [[1, None], [], [1]]),
    "struct": (
        pa.struct([("a", pa.int8()), ("d", pa.date32())]),
        [{"a": 1, "d": date(2024, 2, 29)}, {"a": None, "d": None}],
        [{"d": "2024-02-29", "a": 1}, {"a": None, "d": None}],
    ),
    "map": (pa.map_(pa.string(), pa.int8()), [[("k", 1)], [], [("k", None)]], [{"k": 1}, [], [{"key": "k", "value": None}]]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "forms"), VALUES.values(), ids=VALUES)
def test_each_form_is_equal_to_its_value_and_to_no_other_one(
    kind: pa.DataType, values: list[Any], forms: list[Any]
) -> None:
    column = pa.array([*values, None], kind)
    found = [canonical(one, kind) for one in plain(column)]
    expected = [canonical(one, kind) for one in [*forms, None]]
    assert [[one == other for other in expected] for one in found] == [
        [at == other for other in range(len(found))] for at in range(len(found))
    ]
    twice = plain(pa.chunked_array([column, column]))
    assert [canonical(one, kind) for one in twice] == found * 2


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), "1.5"),
        (pa.bool_(), 1),
        (pa.date32(), "2024-02-30"),
        (pa.timestamp("ns"), "noon"),
        (pa.list_(pa.int8()), "[1]"),
        (pa.struct([("a", pa.int8())]), {"b": 1}),
        (pa.struct([("a", pa.int8())]), {}),
    ],
)
# Any: JSON
def test_what_is_no_value_of_the_type_is_refused(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical(value, kind)


def test_years_that_python_lacks_are_dates() -> None:
    days = {"10000-01-01": 2932897, "0000-12-31": -719163, "-4712-01-01": -2440550}
    assert {text: canonical(text, pa.date32()) // (86_400 * 10**9) for text in days} == days


def test_all_software_is_pinned_and_what_it_wrote_is_small() -> None:
    for one in all_software():
        assert one.version, one.name
        named = readings_in(one.folder) if one.has("expected.json") else {}
        assert all((one.folder / "files" / name).exists() for name in named), one.name
        files = [path for path in one.folder.rglob("*") if path.is_file()]
        assert max(path.stat().st_size for path in files) < 100_000, one.name
        for path in files:
            if path.name in {"package-lock.json", "requirements.txt", "pom.xml"}:
                assert not {"resolved", "index-url"} & set(
                    path.read_text().replace('"', " ").split()
                ), path

"""Values of Arrow columns as JSON: one form for each type, and back to the same value."""

import uuid
from datetime import date, timedelta
from decimal import Decimal

import numpy
import pyarrow as pa
import pytest
from pyarrow import compute

from inferrun.formats.json_columns import texts_in
from inferrun.formats.result_schema import parse_type
from inferrun.formats.typed_values import array_of_column, array_of_texts

NAN, INFINITY = float("nan"), float("inf")
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

UNION = pa.UnionArray.from_dense(
    pa.array([0, 1, 0], pa.int8()),
    pa.array([0, 0, 1], pa.int32()),
    [pa.array([9, None]), pa.array(["b"])],
)

FORMS: dict[str, tuple[pa.Array, list[str | None]]] = {
    "uint64": (pa.array([2**64 - 1, None], pa.uint64()), ["18446744073709551615", "null"]),
    "bool": (pa.array([True, None]), ["true", "null"]),
    "null": (pa.nulls(1), ["null"]),
    "float16": (pa.array([numpy.float16(0.1), None, numpy.float16(NAN)], pa.float16()), ["0.0999755859375", "null", '"NaN"']),
    "float": (pa.array([0.1, None, NAN, -0.0], pa.float32()), ["0.1", "null", '"NaN"', "-0.0"]),
    "double": (pa.array([5e-324, INFINITY, -INFINITY, None]), ["5e-324", '"Infinity"', '"-Infinity"', "null"]),
    "decimal": (pa.array([Decimal("123456789012345678.25"), None]), ['"123456789012345678.25"', "null"]),
    "decimal with a small scale": (pa.array([Decimal(0)], pa.decimal128(20, 10)), ['"0.0000000000"']),
    "decimal without units": (pa.array([Decimal("1E+3")], pa.decimal128(5, -3)), ['"1000"']),
    "decimal of 256 bits": (pa.array([Decimal(10) ** 75], pa.decimal256(76, 0)), [f'"1{"0" * 75}"']),
    "decimal of 32 bits": (pa.array([Decimal("1.5")], pa.decimal32(5, 2)), ['"1.50"']),
    "string as a view": (pa.array(['"\n', None], pa.string_view()), [r'"\"\n"', "null"]),
    "bytes": (pa.array([b"\x00\xff", b"A", None, b""]), ['{"b64":"AP8="}', '"A"', "null", '""']),
    "bytes of one length": (pa.array([b"\x00\xff"], pa.binary(2)), ['{"b64":"AP8="}']),
    "bytes as a view": (pa.array([b"\xff"], pa.binary_view()), ['{"b64":"/w=="}']),
    "date": (pa.array([date(1, 1, 1), date(9999, 12, 31), None]), ['"0001-01-01"', '"9999-12-31"', "null"]),
    "date beyond Python's": (pa.array([2_932_897, 0], pa.date32()), [None, '"1970-01-01"']),
    "date of 64 bits": (pa.array([86_400_000], pa.date64()), ['"1970-01-02"']),
    "time": (pa.array([86_399_999], pa.time32("ms")), ['"23:59:59.999"']),
    "the end of a day": (pa.array([86_400_000_000], pa.time64("us")), ['"24:00:00"']),
    "time that no day has": (pa.array([86_401], pa.time32("s")), [None]),
    "time with nanoseconds": (pa.array([1], pa.time64("ns")), ['"00:00:00.000000001"']),
    "moment": (pa.array([0, -1, None], pa.timestamp("us")), ['"1970-01-01T00:00:00"', '"1969-12-31T23:59:59.999999"', "null"]),
    "moment with nanoseconds": (pa.array([1], pa.timestamp("ns", "UTC")), ['"1970-01-01T00:00:00.000000001+00:00"']),
    "moment in a zone": (pa.array([0], pa.timestamp("ms", "Europe/Rome")), ['"1970-01-01T01:00:00+01:00"']),
    "moment with an offset": (pa.array([0], pa.timestamp("s", "-03:30")), ['"1969-12-31T20:30:00-03:30"']),
    "moment in a zone that is unknown": (pa.array([0], pa.timestamp("s", "No/Where")), ['"1970-01-01T00:00:00+00:00"']),
    "moment before standard time": (pa.array([-(10**10)], pa.timestamp("s", "Europe/Rome")), ['"1653-02-10T06:13:20+00:00"']),
    "the first moment": (pa.array([-62_135_596_800], pa.timestamp("s", "America/New_York")), ['"0001-01-01T00:00:00+00:00"']),
    "moment beyond Python's": (pa.array([253_402_300_800, 0], pa.timestamp("s")), [None, '"1970-01-01T00:00:00"']),
    "duration": (pa.array([timedelta(days=1, microseconds=-1), None]), ['"PT86399.999999S"', "null"]),
    "negative duration": (pa.array([-1500], pa.duration("ms")), ['"PT-1.500S"']),
    "interval": (pa.array([(1, -2, 3_500_000_000)], pa.month_day_nano_interval()), ['"P1M-2DT3.500000000S"']),
    "list": (pa.array([[0.1, NAN], None, []], pa.list_(pa.float32())), ['[0.1,"NaN"]', "null", "[]"]),
    "list as a view": (pa.array([[1, None], None, []], pa.large_list_view(pa.int64())), ["[1,null]", "null", "[]"]),
    "list of one length": (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), ["[1,2]", "null"]),
    "list with a value without text": (pa.array([[2_932_897], [0]], pa.list_(pa.date32())), [None, '["1970-01-01"]']),
    "map": (pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8())), ['{"a":1}', "null", "{}"]),
    "map with other keys": (pa.array([[(2, "x")]], pa.map_(pa.int8(), pa.string())), ['{"2":"x"}']),
    "map with a key twice": (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8())), [None]),
    "struct": (pa.array([(b"\x89", "p"), None], IMAGE), ['{"bytes":{"b64":"iQ=="},"path":"p"}', "null"]),
    "struct without members": (pa.array([{}, None], pa.struct([])), ["{}", "null"]),
    "dictionary": (pa.array(["a", None, "a"]).dictionary_encode(), ['"a"', "null", '"a"']),
    "runs": (compute.run_end_encode(pa.array([1, 1, 2])), ["1", "1", "2"]),
    "JSON": (pa.array(['[1.000000000000000001,\n2]', None, "{"], pa.json_()), ["[1.000000000000000001, 2]", "null", None]),
    "UUID": (pa.array([uuid.UUID(int=5).bytes], pa.uuid()), ['"00000000-0000-0000-0000-000000000005"']),
    "bool of 8 bits": (pa.array([1, 0, None], pa.bool8()), ["true", "false", "null"]),
    "union": (UNION, ["9", '"b"', "null"]),
    "part of a union": (UNION[1:], ['"b"', "null"]),
    "string that is none": (pa.array([b"\xff", b"a"]).view(pa.string()), [None, '"a"']),
    "none": (pa.array([], pa.float64()), []),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_each_type_has_one_form(name: str) -> None:
    column, texts = FORMS[name]
    assert [one and one.decode() for one in texts_in(column)] == texts
    twice = pa.concat_arrays([column, column]) if not pa.types.is_union(column.type) else column
    assert [
        one and one.decode() for one in texts_in(twice.slice(len(twice) - len(column)))
    ] == texts
    assert array_of_column(column, pa.json_())[0].to_pylist() == [
        None if one == "null" else one for one in texts
    ]


SECONDS = [0, 1, -1, -62_135_596_800, 253_402_300_799]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

VALUES: dict[str, list[object]] = {
    "int8": [1, -128],
    "uint64": [2**64 - 1, 0],
    "float16": [0.5, -65504.0],
    "float": [0.1, 3.4e38, -0.0],
    "double": [0.1, 5e-324, 1e300, -0.0],
    "bool": [True, False],
    "string": ["a", "", "\n"],
    "binary": [b"\xff\x00", b"a", b""],
    "date32": [date(1, 1, 1), date(9999, 12, 31)],
    "decimal(5,2)": [Decimal("1.50"), Decimal("-0.01")],
    "decimal(38,18)": [Decimal("12345678901234567890.123456789012345678")],
    "time32[s]": [0, 86_399],
    "time32[ms]": [1, 86_399_999],
    "time64[us]": [1, 86_400_000_000],
    "time64[ns]": [1, 86_399_999_999_999],
    **{f"duration[{unit}]": [1, -5 * size - size // 2] for unit, size in PER_SECOND.items()},
    **{
        f"timestamp[{unit}{zone}]": [
            1,
            -1,
            size // 3,
            *(one * size for one in SECONDS[: 3 if unit == "ns" else 5]),
        ]
        for unit, size in PER_SECOND.items()
        for zone in ("", ", UTC", ", Europe/Rome", ", +02:00")
    },
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_the_same_after_it_was_json(name: str) -> None:
    kind = parse_type(name)
    values = pa.array(VALUES[name], kind)
    items = list(values)
    members = pa.struct([("a", kind), ("b", pa.binary())])
    for column in (
        pa.array([*items, None], kind),
        pa.array([items, [], None, [None]], pa.list_(kind)),
        pa.array([[items[0], items[-1]]], pa.list_(kind, 2)),
        pa.array([{"a": one, "b": b"\xff"} for one in (*items, None)], members),
    ):
        texts = [text or b"" for text in texts_in(column)]
        found, faults = array_of_texts(texts, column.type)
        assert not faults
        assert found.equals(column)


def test_a_time_that_would_be_rounded_is_a_fault() -> None:
    for kind, text in (
        ("time32[s]", "01:02:03.5"),
        ("time64[us]", "01:02:03.0000001"),
        ("time64[us]", "24:00:00.1"),
        ("time64[us]", "01:02:03+02:00"),
        ("duration[s]", "PT0.5S"),
    ):
        assert array_of_texts([b'"%b"' % text.encode()], parse_type(kind))[1] == [0]

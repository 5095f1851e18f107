"""Values as V2's datatypes have them, and as bytes."""

import math
import struct

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.plugins import Json
from inferrun_runner.protocols.tensors.datatypes import (
    FLOATS,
    KINDS,
    Array,
    from_raw,
    narrowed,
    raw_of,
    to_array,
    to_bytes,
)


def fitting(values: list[Json], datatype: str) -> Array:
    """Values of which none is unfit."""
    array, faults = to_array(values, datatype)
    assert not faults
    return array


UNFIT: list[tuple[str, Json]] = [
    ("FP16", 70000),
    ("FP16", 1e39),
    ("FP16", "65520"),
    ("FP16", 2049),
    ("BF16", 257),
    ("BF16", 3.4e38),
    ("FP32", 16_777_217),
    ("FP32", "16777217"),
    ("FP32", 1e39),
    ("FP32", "1_0"),
    ("FP64", (1 << 53) + 1),
    ("FP64", "inf"),
    ("INT64", "1_0"),
    ("INT64", 1e30),
    ("INT64", 9007199254740993.0),
    ("INT64", "9007199254740993.5"),
    ("INT64", 1 << 63),
    ("INT64", float(1 << 63)),
    ("UINT64", -1),
    ("INT8", 128),
    ("INT8", None),
    ("INT32", "1.5"),
    ("INT32", "NaN"),
    ("INT32", [1]),
    ("BOOL", "yes"),
    ("BOOL", 2),
    ("BOOL", None),
]


@pytest.mark.parametrize(("datatype", "value"), UNFIT)
def test_a_value_that_a_datatype_does_not_have_is_not_sent(datatype: str, value: Json) -> None:
    assert f"which datatype {datatype} cannot represent" in to_array([value], datatype)[1][0]
    beside: Json = True if datatype == "BOOL" else 1
    assert set(to_array([beside, value, beside], datatype)[1]) == {1}


SENT: list[tuple[str, Json, Json]] = [
    ("FP16", 65504, 65504.0),
    ("FP32", 33_554_432, 33_554_432.0),
    ("FP32", 16_777_217.0, 16_777_216.0),
    ("FP64", " 1.5 ", 1.5),
    ("FP64", True, 1.0),
    ("INT64", "9007199254740993", 9007199254740993),
    ("INT64", "9007199254740993.0", 9007199254740993),
    ("INT64", "-1e18", -(10**18)),
    ("INT64", 3.0, 3),
    ("INT64", -(1 << 63), -(1 << 63)),
    ("UINT64", "18446744073709551615", (1 << 64) - 1),
    ("BOOL", "True", True),
    ("BOOL", 0.0, False),
]


@pytest.mark.parametrize(("datatype", "value", "sent"), SENT)
def test_a_value_becomes_what_a_datatype_has(datatype: str, value: Json, sent: Json) -> None:
    assert fitting([value], datatype).tolist() == [sent]


def test_integers_on_both_sides_of_what_64_bits_have_fit_into_no_datatype_of_integers() -> None:
    assert fitting([0.5, -1, 1 << 63], "FP64").tolist() == [0.5, -1.0, float(1 << 63)]
    assert set(to_array([-1, 1 << 63], "INT64")[1]) == {1}
    assert set(to_array([-1, 1 << 63], "UINT64")[1]) == {0}


@pytest.mark.parametrize("beside", [1.5, None])
@pytest.mark.parametrize("value", [(1 << 53) + 1, -(1 << 53) - 1])
def test_an_integer_beside_other_numbers_is_not_rounded(value: int, beside: float | None) -> None:
    assert "integer" in to_array([value, beside], "FP64")[1][0]
    assert fitting([value - 1 if value > 0 else value + 1, 1.5], "FP64").tolist()[0] in {
        1 << 53,
        -(1 << 53),
    }


@pytest.mark.parametrize("datatype", sorted(FLOATS))
def test_a_missing_number_is_nan(datatype: str) -> None:
    raw = raw_of(fitting([None, 1], datatype), datatype)
    (missing, one) = from_raw(raw, datatype, count=2)
    assert numpy.isnan(missing)
    assert one == 1


BRAINS = {1.0: 0x3F80, -2.5: 0xC020, 0.1: 0x3DCD, -0.0: 0x8000, 3.0e38: 0x7F62, 1.00390625: 0x3F80}
"""Numbers and their nearest BF16, the even one of two (the last)."""


def test_brain_floating_point_is_sent_and_received() -> None:
    sent = raw_of(fitting(list(BRAINS), "BF16"), "BF16")
    assert sent == struct.pack(f"<{len(BRAINS)}H", *BRAINS.values())
    assert raw_of(fitting([None], "BF16"), "BF16") == b"\xc0\x7f"
    found = from_raw(b"\x80\x3f\x20\xc0\xc0\x7f", "BF16", count=3)
    assert list(found)[:2] == [1.0, -2.5]
    assert numpy.isnan(found[2])
    with pytest.raises(ValueError, match="has 6 bytes"):
        from_raw(bytes(6), "BF16", count=2)


@pytest.mark.parametrize("datatype", sorted(KINDS))
def test_an_array_is_converted_as_its_values_are(datatype: str) -> None:
    for values in ([1, 0], [0.0, 1.0], [1, 300], [0.5, 1.0], [1, 16_777_217], [1.0, 1e300]):
        array = numpy.array(values)
        expected, faults = to_array(list(values), datatype)
        found, others = narrowed(array, datatype)
        assert others == faults
        assert [one for at, one in enumerate(found.tolist()) if at not in faults] == [
            one for at, one in enumerate(expected.tolist()) if at not in faults
        ]


@given(
    st.lists(st.integers(-(1 << 64), 1 << 64) | st.floats(allow_nan=False) | st.none(), min_size=1)
)
def test_a_value_is_exact_or_rounded_as_a_decimal_number_or_not_sent(
    values: list[float | None],
) -> None:
    for datatype in sorted(KINDS):
        found, faults = to_array(values, datatype)
        for at, (given_value, sent) in enumerate(zip(values, found.tolist(), strict=True)):
            if at in faults:
                continue
            if given_value is None:
                assert math.isnan(sent)
            elif type(given_value) is int or datatype not in FLOATS or datatype == "FP64":
                assert sent == given_value


@given(st.lists(st.binary(max_size=9)))
def test_bytes_are_the_same_after_a_round_trip(values: list[bytes]) -> None:
    assert from_raw(raw_of(values, "BYTES"), "BYTES", count=len(values)) == values


def test_values_become_bytes() -> None:
    given_values: list[Json] = ["ü ", {"b64": "/wA="}, 1.5, True, {"b64": "?"}, {"a": [1]}]
    assert to_bytes(given_values)[0] == [
        "ü ".encode(),
        b"\xff\x00",
        b"1.5",
        b"true",
        b'{"b64":"?"}',
        b'{"a":[1]}',
    ]
    assert set(to_bytes([None, "a", ["a"]])[1]) == {0, 2}


def test_a_string_that_is_longer_than_the_output_is_invalid() -> None:
    raw = raw_of([b"text", b"\xff\x00", b""], "BYTES")
    assert from_raw(raw, "BYTES", count=3) == [b"text", b"\xff\x00", b""]
    with pytest.raises(ValueError, match="longer than the output"):
        from_raw(raw[:-1], "BYTES", count=3)


def test_a_blank_text_is_a_missing_number() -> None:
    """pandas with QUOTE_ALL and many databases write a missing number as `""`."""
    array, faults = to_array(["", " ", "1.5"], "FP64")
    assert (faults, numpy.isnan(array).tolist()) == ({}, [True, True, False])
    assert list(to_array(["", "1"], "INT64")[1]) == [0]

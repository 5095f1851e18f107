"""Values as V2's datatypes have them, and as bytes."""

import math
import struct

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.plugins import Json
from runner.protocols.v2.datatypes import (
    FLOATS,
    KINDS,
    Unfit,
    decode_output,
    from_raw,
    narrowed,
    raw_of,
    to_array,
    to_bytes,
)
from tests.unit.runner.batches import decoded

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
    with pytest.raises(Unfit, match=f"which datatype {datatype} cannot represent"):
        to_array([value], datatype)
    beside: Json = True if datatype == "BOOL" else 1
    with pytest.raises(Unfit):
        to_array([beside, value], datatype)


SENT: list[tuple[str, Json, Json]] = [
    ("FP16", 65504, 65504.0),
    ("FP32", 33_554_432, 33_554_432.0),
    ("FP32", 16_777_217.0, 16_777_216.0),
    ("FP64", " 1.5 ", 1.5),
    ("FP64", True, 1.0),
    ("INT64", "9007199254740993", 9007199254740993),
    ("INT64", 3.0, 3),
    ("INT64", -(1 << 63), -(1 << 63)),
    ("UINT64", "18446744073709551615", (1 << 64) - 1),
    ("BOOL", "True", True),
    ("BOOL", 0.0, False),
]


@pytest.mark.parametrize(("datatype", "value", "sent"), SENT)
def test_a_value_becomes_what_a_datatype_has(datatype: str, value: Json, sent: Json) -> None:
    assert to_array([value], datatype).tolist() == [sent]


def test_integers_on_both_sides_of_what_64_bits_have_fit_into_no_datatype_of_integers() -> None:
    assert to_array([0.5, -1, 1 << 63], "FP64").tolist() == [0.5, -1.0, float(1 << 63)]
    for datatype in ("INT64", "UINT64"):
        with pytest.raises(Unfit):
            to_array([-1, 1 << 63], datatype)


@pytest.mark.parametrize("beside", [1.5, None])
@pytest.mark.parametrize("value", [(1 << 53) + 1, -(1 << 53) - 1])
def test_an_integer_beside_other_numbers_is_not_rounded(value: int, beside: float | None) -> None:
    with pytest.raises(Unfit, match="integer"):
        to_array([value, beside], "FP64")
    assert to_array([value - 1 if value > 0 else value + 1, 1.5], "FP64").tolist()[0] in {1 << 53, -(1 << 53)}


@pytest.mark.parametrize("datatype", sorted(FLOATS))
def test_a_missing_number_is_nan(datatype: str) -> None:
    raw = raw_of(to_array([None, 1], datatype), datatype)
    (missing, one) = from_raw(raw, datatype, count=2)
    assert numpy.isnan(missing)
    assert one == 1


BRAINS = {1.0: 0x3F80, -2.5: 0xC020, 0.1: 0x3DCD, -0.0: 0x8000, 3.0e38: 0x7F62, 1.00390625: 0x3F80}
"""Numbers and their nearest BF16, the even one of two (the last)."""


def test_brain_floating_point_is_sent_and_received() -> None:
    sent = raw_of(to_array(list(BRAINS), "BF16"), "BF16")
    assert sent == struct.pack(f"<{len(BRAINS)}H", *BRAINS.values())
    assert raw_of(to_array([None], "BF16"), "BF16") == b"\xc0\x7f"
    found = decode_output(b"\x80\x3f\x20\xc0\xc0\x7f", datatype="BF16", shape=[3], records=3)
    assert decoded(found)[:2] == [1.0, -2.5]
    assert set(found.errors) == {2}
    with pytest.raises(ValueError, match="has 6 bytes"):
        decode_output(bytes(6), datatype="BF16", shape=[2], records=2)


@pytest.mark.parametrize("datatype", sorted(KINDS))
def test_an_array_is_converted_as_its_values_are(datatype: str) -> None:
    for values in ([1, 0], [0.0, 1.0], [1, 300], [0.5, 1.0], [1, 16_777_217], [1.0, 1e300]):
        array = numpy.array(values)
        try:
            expected = to_array(list(values), datatype)
        except Unfit:
            with pytest.raises(Unfit):
                narrowed(array, datatype)
        else:
            assert narrowed(array, datatype).tobytes() == expected.tobytes()


@given(st.lists(st.integers(-(1 << 64), 1 << 64) | st.floats(allow_nan=False) | st.none(), min_size=1))
def test_a_value_is_exact_or_rounded_as_a_decimal_number_or_not_sent(values: list[float | None]) -> None:
    for datatype in sorted(KINDS):
        try:
            found = to_array(values, datatype)
        except Unfit:
            continue
        for given_value, sent in zip(values, found.tolist(), strict=True):
            if given_value is None:
                assert math.isnan(sent)
            elif type(given_value) is int or datatype not in FLOATS or datatype == "FP64":
                assert sent == given_value


@given(st.lists(st.binary(max_size=9)))
def test_bytes_are_the_same_after_a_round_trip(values: list[bytes]) -> None:
    assert from_raw(raw_of(values, "BYTES"), "BYTES", count=len(values)) == values


def test_values_become_bytes() -> None:
    given_values: list[Json] = ["ü ", {"b64": "/wA="}, 1.5, True, {"b64": "?"}, {"a": [1]}]
    assert to_bytes(given_values) == ["ü ".encode(), b"\xff\x00", b"1.5", b"true", b'{"b64":"?"}', b'{"a":[1]}']
    refused: list[Json] = [None, ["a"]]
    for value in refused:
        with pytest.raises(Unfit):
            to_bytes([value])


def test_bytes_that_are_no_text_are_their_base64() -> None:
    raw = raw_of([b"text", b"\xff\x00", b""], "BYTES")
    assert decoded(decode_output(raw, datatype="BYTES", shape=[3], records=3)) == ["text", {"b64": "/wA="}, ""]
    with pytest.raises(ValueError, match="longer than the output"):
        decode_output(raw[:-1], datatype="BYTES", shape=[3], records=3)

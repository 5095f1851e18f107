"""Values as bytes, in all datatypes of V2."""

import struct

import pyarrow
import pytest

from inferrun.plugins import ArrowRecords
from runner.v2.mapped import TensorValues, converted_values, raw_tensor
from runner.v2.raw import SENDABLE, Unsendable, decode_output, encode_records, encode_texts, unsendable
from tests.unit.runner.batches import decoded, records

BRAINS = {1.0: 0x3F80, -2.5: 0xC020, 0.1: 0x3DCD, -0.0: 0x8000, 3.0e38: 0x7F62, 1.00390625: 0x3F80}
"""Numbers and their nearest BF16, the even one of two (the last)."""


def test_all_datatypes_of_numbers_can_be_sent() -> None:
    whole = {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    assert whole | {"BOOL", "FP16", "BF16", "FP32", "FP64"} == SENDABLE


def test_half_precision_is_sent() -> None:
    texts = [b"[1.5,-2]", b"[null,65504]"]
    values = struct.unpack("<4e", encode_texts(texts, "FP16"))
    assert values[:2] == (1.5, -2.0)
    assert values[3] == 65504.0
    assert values[2] != values[2]
    with pytest.raises(Unsendable):
        encode_texts([b"[65536]"], "FP16")


def test_brain_floating_point_is_sent() -> None:
    sent = encode_texts([str(list(BRAINS)).encode()], "BF16")
    assert sent == struct.pack(f"<{len(BRAINS)}H", *BRAINS.values())
    assert encode_texts([b"[null]"], "BF16") == b"\xc0\x7f"
    for too_large in (b"[3.4e38]", b"[-3.4e38]", b"[1e39]"):
        with pytest.raises(Unsendable):
            encode_texts([too_large], "BF16")


def test_booleans_are_sent_if_they_are_zero_or_one() -> None:
    assert encode_texts([b"[0,1]", b"[1.0,0]"], "BOOL") == b"\0\1\1\0"
    assert unsendable([b"[0]", b"[2]", b"[null]", b"[-1]", b"[0.5]"], "BOOL") == [1, 2, 3, 4]


def test_columns_are_sent_in_each_datatype() -> None:
    table = ArrowRecords(pyarrow.record_batch({"a": [1, 0], "b": [0.0, 1.0]}))
    for datatype in sorted(SENDABLE):
        assert encode_records(table, datatype) == encode_texts([b"[1,0]", b"[0,1]"], datatype)


def test_a_tensor_of_columns_may_have_brain_floating_point() -> None:
    tensor = TensorValues("x", "BF16", [2], converted_values(["1.0", None], "BF16"))
    assert raw_tensor(tensor).raw == b"\x80\x3f\xc0\x7f"
    with pytest.raises(Unsendable):
        converted_values([3.4e38], "BF16")


def test_brain_floating_point_is_received() -> None:
    found = decode_output(b"\x80\x3f\x20\xc0\xc0\x7f", datatype="BF16", shape=[3], records=3)
    assert decoded(found)[:2] == [1.0, -2.5]
    assert set(found.errors) == {2}
    with pytest.raises(ValueError, match="has 6 bytes"):
        decode_output(bytes(6), datatype="BF16", shape=[2], records=2)


def test_what_is_sent_is_what_json_says() -> None:
    assert encode_texts(records([[1, 2]]).texts, "INT16") == b"\1\0\2\0"

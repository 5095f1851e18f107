"""Values of columns as the datatypes of tensors have them."""

import math
import struct

import pytest

from inferrun.plugins import Json
from runner.v2.mapped import TensorValues, converted_values, raw_tensor
from runner.v2.raw import Unsendable

UNSENDABLE: list[tuple[str, Json]] = [
    ("FP16", 70000),
    ("FP16", 1e39),
    ("FP16", "65520"),
    ("FP32", "1_0"),
    ("FP64", "inf"),
    ("INT64", "1_0"),
    ("INT64", 1e30),
    ("INT8", 128),
    ("INT128", 1e30),
    ("INT32", "1.5"),
    ("INT32", "NaN"),
    ("BOOL", "yes"),
    ("BYTES", None),
]


@pytest.mark.parametrize(("datatype", "value"), UNSENDABLE)
def test_a_value_that_a_datatype_does_not_have_is_not_sent(datatype: str, value: Json) -> None:
    with pytest.raises(Unsendable):
        converted_values([value], datatype)


SENT: list[tuple[str, Json, Json]] = [
    ("FP16", 65504, 65504),
    ("FP16", None, None),
    ("FP64", " 1.5 ", 1.5),
    ("FP64", "NaN", None),
    ("INT64", "9007199254740993", 9007199254740993),
    ("INT64", 3.0, 3),
    ("UINT64", "18446744073709551615", 2**64 - 1),
    ("BOOL", "True", True),
    ("BYTES", 1.5, "1.5"),
]


@pytest.mark.parametrize(("datatype", "value", "sent"), SENT)
def test_a_value_becomes_what_a_datatype_has(datatype: str, value: Json, sent: Json) -> None:
    (found,) = converted_values([value], datatype)
    assert (found, type(found)) == (sent, type(sent))


def test_a_missing_half_is_nan() -> None:
    (sent,) = struct.unpack("<e", raw_tensor(TensorValues("a", "FP16", [1], [None])).raw)
    assert math.isnan(sent)

"""Responses of V2 over gRPC."""

from typing import Any

import pytest

from inferrun.plugins import Results
from runner.protocols.tensors.predictions import results_of
from runner.protocols.tensors.signature import Signature, TensorSpec
from runner.protocols.v2 import grpc_messages
from tests.conformance.inference_messages import message_class
from tests.unit.runner.batches import decoded

RESPONSE = message_class("ModelInferResponse")
CONTENTS: dict[str, tuple[str, list[Any]]] = {  # Any: values of the datatype
    "BOOL": ("bool_contents", [False, True, False]),
    "INT8": ("int_contents", [0, -1, 127]),
    "INT32": ("int_contents", [0, -(1 << 31), 5]),
    "INT64": ("int64_contents", [0, -(1 << 63), 1 << 62]),
    "UINT32": ("uint_contents", [0, 1, (1 << 32) - 1]),
    "UINT64": ("uint64_contents", [0, 1, (1 << 64) - 1]),
    "FP32": ("fp32_contents", [0.0, -1.5, 2.0]),
    "FP64": ("fp64_contents", [0.0, 1e300, -0.5]),
    "BYTES": ("bytes_contents", [b"", b"a", b""]),
}


def decode_response(message: bytes, *, records: int) -> Results:
    outputs = grpc_messages.decode_response(message)
    return results_of(outputs, Signature((TensorSpec("x"),)), records=records)


def typed(datatype: str, values: list[Any], *, shape: list[int] | None = None) -> bytes:  # Any: values
    """A response with typed contents."""
    message = RESPONSE(model_name="sum")
    output = message.outputs.add(name="o", datatype=datatype, shape=[len(values)] if shape is None else shape)
    getattr(output.contents, CONTENTS[datatype][0]).extend(values)
    return bytes(message.SerializeToString())


def expected(values: list[Any]) -> list[Any]:  # Any: values
    return [value.decode() if isinstance(value, bytes) else value for value in values]


@pytest.mark.parametrize("datatype", CONTENTS)
def test_each_type_of_contents_is_read(datatype: str) -> None:
    values = CONTENTS[datatype][1]
    assert decoded(decode_response(typed(datatype, values), records=3)) == expected(values)


def test_empty_strings_are_values_if_there_is_no_shape() -> None:
    response = typed("BYTES", [b"", b"a", b"", b"b"], shape=[])
    assert decoded(decode_response(response, records=2)) == [["", "a"], ["", "b"]]


def test_contents_of_several_types_are_invalid() -> None:
    message = RESPONSE.FromString(typed("FP64", [1.0, 2.0, 3.0]))
    message.outputs[0].contents.fp32_contents.extend([4.0, 5.0, 6.0])
    with pytest.raises(ValueError, match="values of several types"):
        decode_response(message.SerializeToString(), records=3)

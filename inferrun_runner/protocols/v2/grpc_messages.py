"""The messages of V2 over gRPC, as bytes. Pure. Their classes are generated from
`inference.proto`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from inferrun.formats.bytes_in_json import json_of_bytes
from inferrun_runner.protocols.tensors.answers import ModelOutput
from inferrun_runner.protocols.tensors.columns import Tensor
from inferrun_runner.protocols.tensors.datatypes import from_raw, raw_of
from inferrun_runner.protocols.tensors.signature import Signature
from inferrun_runner.protocols.v2 import inference_pb2 as messages

INFER: Final = "/inference.GRPCInferenceService/ModelInfer"
READY: Final = "/inference.GRPCInferenceService/ModelReady"
METADATA: Final = "/inference.GRPCInferenceService/ModelMetadata"

M = TypeVar("M", bound=Message)


def infer_request(model: str, tensors: Sequence[Tensor], signature: Signature) -> bytes:
    """Return a ModelInferRequest."""
    request = messages.ModelInferRequest(
        model_name=model,
        raw_input_contents=[bytes(raw_of(one.values, one.datatype)) for one in tensors],
    )
    _set(request.parameters, signature.parameters)
    for one in tensors:
        _set(
            request.inputs.add(name=one.name, datatype=one.datatype, shape=one.shape).parameters,
            one.parameters,
        )
    for output in signature.requested:
        _set(request.outputs.add(name=output.name).parameters, output.parameters)
    return request.SerializeToString()


# Any: a map of messages
def _set(parameters: "Any", values: Mapping[str, bool | int | str]) -> None:
    for name, value in values.items():
        kind = (
            "bool_param"
            if isinstance(value, bool)
            else "int64_param"
            if isinstance(value, int)
            else "string_param"
        )
        setattr(parameters[name], kind, value)


def name_request(model: str) -> bytes:
    """Return a ModelReadyRequest, which is the same as a ModelMetadataRequest: a field 1 with the
    name of the model."""
    return messages.ModelReadyRequest(name=model).SerializeToString()


def is_ready(message: bytes) -> bool:
    """What a ModelReadyResponse says. Raises ValueError."""
    return _parsed(messages.ModelReadyResponse(), message).ready


def metadata_of(message: bytes) -> dict[str, Any]:  # Any: the JSON form
    """Return a ModelMetadataResponse in the form of V2 REST. Raises ValueError."""
    found = _parsed(messages.ModelMetadataResponse(), message)
    return {
        side: [
            {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
            for one in tensors
        ]
        for side, tensors in (("inputs", found.inputs), ("outputs", found.outputs))
    }


def decode_response(message: bytes) -> list[ModelOutput]:
    """Return the outputs of a ModelInferResponse. Raises ValueError with what violates the
    protocol."""
    response = _parsed(messages.ModelInferResponse(), message)
    found, raws = response.outputs, response.raw_output_contents
    if raws and len(raws) != len(found):
        raise ValueError(f"it has {len(found)} outputs, and bytes of {len(raws)}")
    outputs = []
    for at, one in enumerate(found):
        shape, datatype = list(one.shape), one.datatype.upper()
        if raws:
            values = from_raw(raws[at], datatype, count=math.prod(shape))
            outputs.append(ModelOutput(one.name, datatype, shape, values))
        else:
            values = (
                [] if 0 in shape and not one.contents.ListFields() else _values_in(one.contents)
            )
            outputs.append(ModelOutput(one.name, datatype, shape, values, is_json=True))
    return outputs


def _values_in(contents: messages.InferTensorContents) -> list[Any]:  # Any: JSON
    filled = [values for _, values in contents.ListFields()]
    if not filled:
        raise ValueError("the output has no values")
    if len(filled) > 1:
        raise ValueError("the output has values of several types")
    return [json_of_bytes(value) if isinstance(value, bytes) else value for value in filled[0]]


def _parsed(empty: M, message: bytes) -> M:
    try:
        empty.ParseFromString(message)
    except DecodeError as error:
        raise ValueError("the message is malformed") from error
    return empty

"""The messages of V2 over gRPC, as bytes. Pure. Their classes are generated from `inference.proto`."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from inferrun.formats.json_text import json_of_bytes
from inferrun.plugins import OutputTensor, Results
from runner.protocols.v2 import inference_pb2 as messages
from runner.protocols.v2.datatypes import decode_output
from runner.protocols.v2.inputs import Tensor
from runner.protocols.v2.tensors import results_in, results_of

INFER: Final = "/inference.GRPCInferenceService/ModelInfer"
READY: Final = "/inference.GRPCInferenceService/ModelReady"
METADATA: Final = "/inference.GRPCInferenceService/ModelMetadata"

M = TypeVar("M", bound=Message)


def infer_request(model: str, tensors: Sequence[Tensor], outputs: Sequence[OutputTensor] = ()) -> bytes:
    """Return a ModelInferRequest."""
    request = messages.ModelInferRequest(model_name=model, raw_input_contents=[one.content for one in tensors])
    for one in tensors:
        request.inputs.add(name=one.name, datatype=one.datatype, shape=one.shape)
    for wanted in outputs:
        request.outputs.add(name=wanted.name)
    return request.SerializeToString()


def name_request(model: str) -> bytes:
    """Return a ModelReadyRequest, which is the same as a ModelMetadataRequest: a field 1 with the name of the model."""
    return messages.ModelReadyRequest(name=model).SerializeToString()


def is_ready(message: bytes) -> bool:
    """What a ModelReadyResponse says. Raises ValueError."""
    return _parsed(messages.ModelReadyResponse(), message).ready


def metadata_of(message: bytes) -> dict[str, Any]:  # Any: the JSON form
    """Return a ModelMetadataResponse in the form of V2 REST. Raises ValueError."""
    found = _parsed(messages.ModelMetadataResponse(), message)
    sides = {"inputs": found.inputs, "outputs": found.outputs}
    return {
        side: [{"name": one.name, "datatype": one.datatype, "shape": list(one.shape)} for one in tensors]
        for side, tensors in sides.items()
    }


def decode_response(message: bytes, *, records: int, outputs: Sequence[OutputTensor] = ()) -> Results:
    """Return one prediction per record from a ModelInferResponse. Raises ValueError with what violates the protocol."""
    response = _parsed(messages.ModelInferResponse(), message)
    found, raws = response.outputs, response.raw_output_contents
    if not found:
        raise ValueError("no outputs")
    if raws and len(raws) != len(found):
        raise ValueError(f"it has {len(found)} outputs, and bytes of {len(raws)}")

    def read(output: dict[str, Any]) -> Results:  # Any: the JSON form
        at = output["at"]
        shape = list(found[at].shape)
        if raws:
            return decode_output(raws[at], datatype=found[at].datatype.upper(), shape=shape, records=records)
        return results_of(_values_in(found[at].contents), shape, records=records)

    named = [{"name": one.name, "at": at} for at, one in enumerate(found)]
    return results_in(named, outputs, read=read)


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

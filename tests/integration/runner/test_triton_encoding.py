"""Requests in bytes are those that Triton's client library encodes, for each datatype and rank,
over REST and gRPC."""

import json
import math
import subprocess
from base64 import b64decode
from typing import Any

import numpy
import orjson
import pytest

from inferrun.plugins import JsonRecords, Tensors
from inferrun_runner.protocols.tensors.columns import tensor_of
from inferrun_runner.protocols.tensors.datatypes import from_raw
from inferrun_runner.protocols.tensors.signature import Signature, signature_of
from inferrun_runner.protocols.v2 import grpc_messages, rest_messages
from inferrun_runner.protocols.v2 import inference_pb2 as messages
from tests.integration.runner.echo_servers import DIMENSIONS, SAMPLES
from tools.devcluster.servers_for_tests import triton_python

ENCODE = """
import base64, json, sys, ml_dtypes, numpy
from tritonclient import grpc, http
from tritonclient.utils import triton_to_np_dtype

found = []
for name, shape, datatype, values in json.load(sys.stdin):
    kind = ml_dtypes.bfloat16 if datatype == "BF16" else triton_to_np_dtype(datatype)
    array = numpy.array([one.encode() for one in values] if datatype == "BYTES" else values, dtype=kind).reshape(shape)
    parts = []
    for library in (http, grpc):
        given = library.InferInput(name, shape, datatype)
        given.set_data_from_numpy(array, **({"binary_data": True} if library is http else {}))
        parts.append(given)
    body, length = http.InferenceServerClient.generate_request_body([parts[0]])
    raw = parts[1]._get_content()
    found.append([base64.b64encode(body).decode(), length, base64.b64encode(raw).decode()])
json.dump(found, sys.stdout)
"""

SENT: dict[str, list[Any]] = {**SAMPLES, "BF16": [1.0, -2.5, 3.0e38, 0.1, 1.00390625]}  # Any: JSON


def worlds() -> list[tuple[str, tuple[int, ...], list[Any]]]:  # Any: JSON
    """Datatypes, dimensions and the values of three records, of one for rank 0."""
    found = []
    for datatype, samples in SENT.items():
        for rank, dimensions in DIMENSIONS.items():
            size = math.prod(dimensions) * (3 if rank else 1)
            shape = (3, *dimensions) if rank else ()
            found.append((datatype, shape, [samples[at % len(samples)] for at in range(size)]))
    return found


def nested(values: list[Any], dimensions: tuple[int, ...]) -> list[Any]:  # Any: JSON
    for size in reversed(dimensions):
        values = [values[start : start + size] for start in range(0, len(values), size)]
    return values


@pytest.fixture(scope="module")
def encoded() -> list[tuple[bytes, int, bytes]]:
    """The bodies, the lengths of their headers, and the bytes of the tensors as Triton's client has
    them."""
    python = triton_python()
    if not python.exists():
        pytest.skip("Triton's client is required: python -m tools.devcluster test-servers")
    given = json.dumps([("x", shape, datatype, values) for datatype, shape, values in worlds()])
    done = subprocess.run(
        [str(python), "-c", ENCODE], input=given, capture_output=True, text=True, check=True
    )
    return [
        (b64decode(body), length, b64decode(raw)) for body, length, raw in json.loads(done.stdout)
    ]


@pytest.mark.parametrize(
    "at", range(len(worlds())), ids=[f"{kind}-{len(shape)}" for kind, shape, _ in worlds()]
)
def test_a_request_has_the_bytes_of_tritons_client(
    encoded: list[tuple[bytes, int, bytes]], at: int
) -> None:
    datatype, shape, values = worlds()[at]
    body, length, raw = encoded[at]
    records = JsonRecords([orjson.dumps({"v": one}) for one in nested(values, shape[1:])])
    given = {
        "name": "x",
        "columns": ["v"],
        "datatype": datatype,
        "shape": [-1, *shape[1:]] if shape else [],
    }
    signature = signature_of(Tensors.model_validate({"inputs": [given]}), None, "", target="")
    tensor = tensor_of(records, signature.inputs[0], is_json=False)
    parts, headers = rest_messages.encode_bytes([tensor], signature)
    own = b"".join(parts)
    start = int(headers[rest_messages.HEADER_LENGTH])
    assert own[start:] == body[length:]
    assert orjson.loads(own[:start])["inputs"] == orjson.loads(body[:length])["inputs"]
    request = messages.ModelInferRequest.FromString(
        grpc_messages.infer_request("m", [tensor], signature)
    )
    assert list(request.raw_input_contents) == [raw]
    found = from_raw(raw, datatype, count=len(values))
    if datatype == "BYTES":
        assert [one.decode() for one in found] == values
    elif datatype == "BF16":
        assert numpy.allclose(found, values, rtol=1 / 256, atol=0)
    else:
        assert list(found) == values
    assert (list(request.inputs[0].shape), request.inputs[0].datatype) == (list(shape), datatype)


REQUESTED = """
import base64, json, sys
from tritonclient import grpc, http

given = http.InferInput("x", [1], "FP32")
output = http.InferRequestedOutput("y", binary_data=True, class_count=3)
body, length = http.InferenceServerClient.generate_request_body([given], outputs=[output])
tensor = grpc.InferRequestedOutput("y", class_count=3)._get_tensor()
outputs = json.loads(body[:length] if length else body)["outputs"]
json.dump([outputs, base64.b64encode(tensor.SerializeToString()).decode()], sys.stdout)
"""


def test_a_requested_classification_is_that_of_tritons_client() -> None:
    if not (python := triton_python()).exists():
        pytest.skip("Triton's client is required: python -m tools.devcluster test-servers")
    done = subprocess.run(
        [str(python), "-c", REQUESTED], capture_output=True, text=True, check=True
    )
    outputs, tensor = json.loads(done.stdout)
    given = {
        "inputs": [{"name": "x", "columns": ["v"]}],
        "outputs": [{"name": "y", "parameters": {"classification": 3}}],
    }
    signature = signature_of(Tensors.model_validate(given), None, "", target="")
    sent = tensor_of(JsonRecords([b'{"v":1}']), signature.inputs[0], is_json=False)
    (head, _), _ = rest_messages.encode_bytes([sent], signature)
    assert orjson.loads(head)["outputs"] == outputs
    assert orjson.loads(rest_messages.encode_json([sent], signature))["outputs"] == [
        {"name": "y", "parameters": {"classification": 3}}
    ]
    request = messages.ModelInferRequest.FromString(
        grpc_messages.infer_request("m", [sent], signature)
    )
    assert [one.SerializeToString() for one in request.outputs] == [b64decode(tensor)]


def test_parameters_are_sent_with_inputs_and_requests() -> None:
    parameters = {"content_type": "x", "sequence": 5, "is_last": True}
    given = {"name": "x", "columns": ["v"], "parameters": parameters}
    signature: Signature = signature_of(
        Tensors.model_validate({"inputs": [given], "parameters": parameters}), None, "", target=""
    )
    tensor = tensor_of(JsonRecords([b'{"v":1}']), signature.inputs[0], is_json=False)
    (first, _), headers = rest_messages.encode_bytes([tensor], signature)
    assert len(first) == int(headers[rest_messages.HEADER_LENGTH])
    head = orjson.loads(first)
    assert head["parameters"] == {**parameters, "binary_data_output": True}
    assert head["inputs"][0]["parameters"] == {**parameters, "binary_data_size": 4}
    request = messages.ModelInferRequest.FromString(
        grpc_messages.infer_request("m", [tensor], signature)
    )
    for found in (request.parameters, request.inputs[0].parameters):
        assert found["content_type"].string_param == "x"
        assert found["sequence"].int64_param == 5
        assert found["is_last"].bool_param

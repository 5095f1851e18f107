"""Sends batches to a model server with the V1 protocol. Each call is one try; the pipeline retries.

A request is `{"instances": […]}` with one JSON value per record, which has a member for each named
input. A response is `{"predictions": […]}` with one JSON value per instance. TensorFlow Serving
describes the inputs and outputs of its models.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson

from inferrun.formats.json_text import array_of, texts_of
from inferrun.plugins import Json, JsonRecords, Model, ModelContext, Records, Results, Tensors
from inferrun_runner.network.model_server import ModelServer, open_model_server
from inferrun_runner.network.network_failures import invalid_response
from inferrun_runner.network.retries import with_retries
from inferrun_runner.protocols.model_urls import predict_url, without_end
from inferrun_runner.protocols.tensors.answers import errors_of, joined_errors, load
from inferrun_runner.protocols.tensors.datatypes import DATATYPES, KINDS, Faults
from inferrun_runner.protocols.tensors.model import TensorModel
from inferrun_runner.protocols.tensors.signature import Signature
from inferrun_runner.protocols.v1.instances import instances_of

if TYPE_CHECKING:
    import pyarrow


_DATATYPES: Final = {
    "DT_HALF": "FP16",
    "DT_BFLOAT16": "BF16",
    "DT_FLOAT": "FP32",
    "DT_DOUBLE": "FP64",
    "DT_STRING": "BYTES",
}
"""V2's datatypes by the names that TensorFlow has for them, as far as these are others."""


class V1Rest(TensorModel[Sequence[bytes]]):
    """The model behind one predict URL."""

    default = ""

    def __init__(self, server: ModelServer, model: Model, tensors: Tensors) -> None:
        super().__init__(model, tensors, target=server.target)
        self._server = server
        rest = orjson.dumps(tensors.parameters)[1:-1]
        self._head = b"{%b%b" % (rest, b"," if rest else b"")

    async def read_metadata(self) -> object:
        """Read TensorFlow Serving's metadata. What the contract does not name must be the model's
        only input or output."""
        url = f"{without_end(self._server.url, ':predict')}/metadata"
        reply = await with_retries(
            lambda: self._server.exchange("GET", url), budget=self._server.limits.retry_seconds
        )
        # not every server has it; the first request reports a missing model
        if reply.status != 200:
            return None
        tensors = self.tensors
        name = str(self.tensors.parameters.get("signature_name", "serving_default"))
        named = {"inputs": tensors.inputs, "outputs": tensors.outputs}
        found = metadata_in(reply.body, name)
        return {side: known for side, known in found.items() if named[side] or len(known) == 1}

    def made_of(self, records: Records) -> tuple[Sequence[bytes], list[int], Faults]:
        """Return the instances."""
        return instances_of(records, self.signature.inputs, self.tensors.inputs)

    async def infer(self, request: Sequence[bytes], records: int) -> Results:
        """Send one request."""
        body = b'%b"instances":%b}' % (self._head, array_of(request))
        reply = await self._server.exchange("POST", self._server.url, body)
        if reply.status != 200:
            raise self._server.unsuccessful(reply)
        try:
            return decode(reply.body, self.signature, records=records)
        except ValueError as error:
            raise invalid_response(self.target, "V1", reply.body, error) from error

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction, which is stored as the server returns it: a shape [-1,
        1] is a list of one value."""
        if not self.signature.outputs:
            return None
        from inferrun_runner.protocols.tensors.arrow_answers import type_of  # noqa: PLC0415  only runs with typed results pay for the import of pyarrow

        return type_of(self.signature, has_ones=True)

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Predictions are JSON texts, which are converted when they are stored."""


def metadata_in(body: bytes, signature: str) -> dict[str, list[Any]]:  # Any: JSON
    """Return a signature in TensorFlow Serving's metadata of a model, in the form of V2; empty if
    it is not there."""
    try:
        found = orjson.loads(body)["metadata"]["signature_def"]["signature_def"][signature]
        return {
            side: [_described(name, one) for name, one in found[side].items()]
            for side in ("inputs", "outputs")
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _described(name: str, tensor: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    kind, shape = str(tensor["dtype"]), tensor["tensor_shape"]
    datatype = _DATATYPES.get(kind, kind.removeprefix("DT_"))
    return {
        "name": name,
        "datatype": datatype if datatype in DATATYPES else "",
        "shape": None if shape.get("unknown_rank") else [int(one["size"]) for one in shape["dim"]],
    }


def decode(body: bytes, signature: Signature, *, records: int) -> Results:
    """Return one prediction per record; of objects, only the wanted outputs. Raises ValueError."""
    response = load(body)
    predictions = response.get("predictions") if isinstance(response, dict) else None
    if not isinstance(predictions, list):
        raise ValueError('no "predictions"')  # noqa: TRY004  callers expect ValueError for invalid responses
    if len(predictions) != records:
        raise ValueError(f"it has {len(predictions)} predictions for {records} records")
    if not signature.is_chosen:
        return Results(JsonRecords(texts_of(predictions)), errors_of(predictions))
    predictions = [_wanted(one, signature) for one in predictions]
    # null stands for a number only where the output is one; in other objects it is a value
    numbers = {one.result_name for one in signature.outputs if one.datatype in KINDS}
    values = {name: [one[name] for one in predictions] for name in numbers}
    errors = errors_of(predictions) | joined_errors(
        {name: errors_of(column) for name, column in values.items()}
    )
    return Results(JsonRecords(texts_of(predictions)), errors)


def _wanted(prediction: Json, signature: Signature) -> dict[str, Json]:
    outputs = signature.outputs
    if not isinstance(prediction, dict) and len(outputs) == 1:
        return {outputs[0].result_name: prediction}  # a model with one output omits its name
    if not isinstance(prediction, dict) or (
        missing := [one.name for one in outputs if one.name not in prediction]
    ):
        names = missing if isinstance(prediction, dict) else [one.name for one in outputs]
        raise ValueError(f"it has no output {names[0]!r}")
    return {one.result_name: prediction[one.name] for one in outputs}


@asynccontextmanager
async def open_v1(model: Model, context: ModelContext) -> AsyncIterator[V1Rest]:
    """Open the protocol `v1`."""
    async with open_model_server(
        model, predict_url(model.model_url, model.model_name), context
    ) as server:
        yield V1Rest(server, model, context.contract.tensors)

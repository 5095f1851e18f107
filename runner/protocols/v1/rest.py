"""Sends batches to a model server with the V1 protocol. Each call is one try; the pipeline retries.

A request is `{"instances": […]}` with one JSON value per record, which has a member for each named input. A response is
`{"predictions": […]}` with one JSON value per instance.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from inferrun.formats.json_text import array_of, texts_of
from inferrun.formats.record_errors import not_sent, with_record_errors
from inferrun.plugins import Batch, Json, JsonRecords, Model, ModelContext, Results, Tensors
from runner.network.model_server import ModelServer, open_model_server
from runner.network.network_failures import invalid_response
from runner.network.retries import with_retries
from runner.protocols.model_urls import predict_url, without_end
from runner.protocols.tensors.answers import errors_of, load
from runner.protocols.tensors.signature import Signature, signature_of
from runner.protocols.v1.instances import instances_of

if TYPE_CHECKING:
    import pyarrow


class V1Rest:
    """The model behind one predict URL."""

    max_records: int | None = None

    def __init__(self, server: ModelServer, model: Model, tensors: Tensors) -> None:
        self._server = server
        self._tensors = tensors
        self._signature = signature_of(tensors, None, model.model_input_name, target=server.target, default="")

    @property
    def takes_any(self) -> bool:
        """Columns that are named may have any type; what cannot be sent is named with the column."""
        return bool(self._tensors.inputs)

    def fed_columns(self) -> tuple[str, ...]:
        """Return the columns of the inputs."""
        return self._tensors.columns

    async def prepare(self) -> None:
        """Check that the server can be reached. Not every server has a status; the first request reports a missing model."""
        status_url = without_end(self._server.url, ":predict")
        await with_retries(lambda: self._server.exchange("GET", status_url), budget=self._server.limits.retry_seconds)

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the records that JSON cannot represent."""
        texts, places, faults = instances_of(batch.records, self._signature.inputs, self._tensors.inputs)
        results = await self._predict(texts) if places else None
        return with_record_errors(results, {at: not_sent(text) for at, text in faults.items()}, total=len(batch))

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction, if the contract states the outputs."""
        if not self._signature.outputs:
            return None
        from runner.protocols.tensors.arrow_answers import type_of  # noqa: PLC0415  only runs with typed results pay for the import of pyarrow

        return type_of(self._signature)

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Predictions are JSON texts, which are converted when they are stored."""

    async def _predict(self, texts: Sequence[bytes]) -> Results:
        reply = await self._server.exchange("POST", self._server.url, b'{"instances":%b}' % array_of(texts))
        if reply.status != 200:
            raise self._server.unsuccessful(reply)
        try:
            return decode(reply.body, self._signature, records=len(texts))
        except ValueError as error:
            raise invalid_response(self._server.target, "V1", reply.body, error) from error


def decode(body: bytes, signature: Signature, *, records: int) -> Results:
    """Return one prediction per record; of objects, only the wanted outputs. Raises ValueError."""
    response = load(body)
    predictions = response.get("predictions") if isinstance(response, dict) else None
    if not isinstance(predictions, list):
        raise ValueError('no "predictions"')  # noqa: TRY004  callers expect ValueError for invalid responses
    if len(predictions) != records:
        raise ValueError(f"it has {len(predictions)} predictions for {records} records")
    if signature.is_chosen:
        predictions = [_wanted(one, signature) for one in predictions]
    return Results(JsonRecords(texts_of(predictions)), errors_of(predictions))


def _wanted(prediction: Json, signature: Signature) -> Json:
    outputs = signature.outputs
    if not isinstance(prediction, dict) and len(outputs) == 1:
        return {outputs[0].result_name: prediction}  # a model with one output omits its name
    if not isinstance(prediction, dict) or (missing := [one.name for one in outputs if one.name not in prediction]):
        names = missing if isinstance(prediction, dict) else [one.name for one in outputs]
        raise ValueError(f"it has no output {names[0]!r}")
    return {one.result_name: prediction[one.name] for one in outputs}


@asynccontextmanager
async def open_v1(model: Model, context: ModelContext) -> AsyncIterator[V1Rest]:
    """Open the protocol `v1`."""
    async with open_model_server(model, predict_url(model.model_url, model.model_name), context) as server:
        yield V1Rest(server, model, context.contract.tensors)

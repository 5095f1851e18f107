"""Sends batches to a model server with the V1 protocol. Each call is one try; the pipeline retries.

A request is `{"instances": […]}` with one JSON value per record, a response `{"predictions": […]}` with one JSON value per
instance.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from inferrun.formats.json_text import array_of, json_texts, texts_of
from inferrun.formats.record_errors import predict_valid, without_infinity
from inferrun.plugins import Batch, JsonRecords, Model, ModelContext, Results
from runner.network.model_server import ModelServer, open_model_server
from runner.network.network_failures import invalid_response
from runner.network.retries import with_retries
from runner.protocols.model_urls import predict_url, without_end
from runner.protocols.tensors.answers import errors_of, load


class V1Rest:
    """The model behind one predict URL."""

    max_records: int | None = None

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    async def prepare(self) -> None:
        """Check that the server can be reached. Not every server has a status; the first request reports a missing model."""
        status_url = without_end(self._server.url, ":predict")
        await with_retries(lambda: self._server.exchange("GET", status_url), budget=self._server.limits.retry_seconds)

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the records that JSON cannot represent."""
        return await predict_valid(without_infinity(batch), self._predict)

    async def _predict(self, batch: Batch) -> Results:
        texts = json_texts(batch.records)
        reply = await self._server.exchange("POST", self._server.url, b'{"instances":%b}' % array_of(texts))
        if reply.status != 200:
            raise self._server.unsuccessful(reply)
        try:
            return _decode(reply.body, records=len(texts))
        except ValueError as error:
            raise invalid_response(self._server.target, "V1", reply.body, error) from error


def _decode(body: bytes, *, records: int) -> Results:
    response = load(body)
    predictions = response.get("predictions") if isinstance(response, dict) else None
    if not isinstance(predictions, list):
        raise ValueError('no "predictions"')  # noqa: TRY004  callers expect ValueError for invalid responses
    if len(predictions) != records:
        raise ValueError(f"it has {len(predictions)} predictions for {records} records")
    return Results(JsonRecords(texts_of(predictions)), errors_of(predictions))


@asynccontextmanager
async def open_v1(model: Model, context: ModelContext) -> AsyncIterator[V1Rest]:
    """Open the protocol `v1`."""
    async with open_model_server(model, predict_url(model.model_url, model.model_name), context) as server:
        yield V1Rest(server)

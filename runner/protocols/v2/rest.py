"""Sends batches to a model server with V2 REST over one connection pool.

Each call is one try; the pipeline retries, which is safe because inference has no side effects. Values are sent as JSON, or as
bytes if the server advertises the binary extension and the datatype is one that can be sent in this way.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import orjson

from inferrun.plugins import Batch, Fault, Model, ModelContext, Records, Results, Tensors
from runner.network.http_client import Response
from runner.network.model_server import JSON_HEADERS, ModelServer, open_model_server
from runner.network.retries import with_retries
from runner.protocols.model_urls import infer_url, server_url, without_end
from runner.protocols.v2 import binary
from runner.protocols.v2.inputs import Tensor, encode_json, map_of, mismatch_of, predict_tensors

_log = logging.getLogger(__name__)


class V2Rest:
    """The model behind one infer URL."""

    max_records: ClassVar[int | None] = None

    def __init__(self, model: Model, server: ModelServer) -> None:
        self._model = model
        self._server = server
        self._tensors = Tensors()
        self._map = map_of(Tensors(), None, model.model_input_name, target=server.target)
        self._is_binary = False

    def map_tensors(self, tensors: Tensors) -> None:
        """Use these tensors."""
        self._tensors = tensors

    async def prepare(self) -> None:
        """Read the name, shape and datatype of the input, and ask whether the server takes bytes."""
        reply = await with_retries(
            lambda: self._server.exchange("GET", without_end(self._server.url, "/infer")),
            budget=self._server.limits.retry_seconds,
        )
        if reply.status != 200:
            # Not every server has metadata; if the model itself is missing, the first request reports it.
            _log.info("the model has no metadata; assuming shape [n, m]", extra={"status": reply.status})
        wanted = self._model.model_input_name
        self._map = map_of(self._tensors, _json_of(reply), wanted, target=self._server.target)
        self._is_binary = await self._advertises_binary()

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the records that cannot be sent."""
        return await predict_tensors(batch.records, self._map.inputs, self._send, is_json=not self._is_binary)

    async def _send(self, tensors: list[Tensor], records: int) -> Results:
        if self._is_binary:
            body, headers = binary.encode(tensors, self._map.outputs)
        else:
            body, headers = encode_json(tensors, self._map.outputs), JSON_HEADERS
        reply = await self._server.exchange("POST", self._server.url, body, headers=headers)
        if reply.status != 200:
            raise self._server.unsuccessful(reply)
        try:
            return binary.decode_response(reply.body, reply.headers, records=records, outputs=self._map.outputs)
        except ValueError as error:
            raise self._server.invalid("V2", reply.body, error) from error

    async def _advertises_binary(self) -> bool:
        url = server_url(self._server.url)
        if not url:
            return False
        try:
            reply = await self._server.exchange("GET", url)
        except Fault:  # a server without metadata of its own; the requests themselves are retried
            return False
        return binary.is_advertised(_json_of(reply))

    def mismatch(self, records: Records) -> str:
        """Compare the records with the metadata."""
        return mismatch_of(records, self._map, target=self._server.target, is_json=not self._is_binary)


def _json_of(reply: Response) -> object:
    """Return the JSON of a successful response, otherwise None."""
    if reply.status != 200:
        return None
    try:
        found: object = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        _log.warning("the server's metadata is not valid JSON")
        return None
    return found


@asynccontextmanager
async def open_v2(model: Model, context: ModelContext) -> AsyncIterator[V2Rest]:
    """Open the protocol `v2`."""
    async with open_model_server(model, infer_url(model.model_url, model.model_name), context) as server:
        yield V2Rest(model, server)

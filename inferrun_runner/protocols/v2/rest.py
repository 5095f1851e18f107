"""V2 over REST, with one connection pool.

Values are sent as JSON, or as bytes if the server advertises the binary extension.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import orjson

from inferrun.plugins import Fault, Model, ModelContext, Tensors
from inferrun_runner.network.exchanges import Body, Response
from inferrun_runner.network.model_server import JSON_HEADERS, ModelServer, open_model_server
from inferrun_runner.network.retries import with_retries
from inferrun_runner.protocols.model_urls import infer_url, server_url, without_end
from inferrun_runner.protocols.tensors.answers import ModelOutput
from inferrun_runner.protocols.tensors.columns import Tensor
from inferrun_runner.protocols.v2.client import V2Client
from inferrun_runner.protocols.v2.rest_messages import (
    EXTENSION,
    decode_response,
    encode_bytes,
    encode_json,
)

_log = logging.getLogger(__name__)


class V2Rest(V2Client):
    """The model behind one infer URL."""

    is_json = True

    def __init__(self, server: ModelServer, model: Model, tensors: Tensors) -> None:
        self._server = server
        super().__init__(model, tensors, target=server.target)

    async def read_metadata(self) -> object:
        """Read the model's metadata, and ask whether the server takes bytes."""
        server = self._server
        reply = await with_retries(
            lambda: server.exchange("GET", without_end(server.url, "/infer")),
            budget=server.limits.retry_seconds,
        )
        if reply.status != 200:
            # Not every server has metadata; if the model itself is missing, the first request
            # reports it.
            _log.info(
                "the model has no metadata; assuming shape [n, m]", extra={"status": reply.status}
            )
        if url := server_url(server.url):
            try:
                found = _json_of(await server.exchange("GET", url))
            except Fault:
                # a server without metadata of its own; the requests themselves are retried
                found = None
            extensions = found.get("extensions") if isinstance(found, dict) else None
            self.is_json = not (isinstance(extensions, list) and EXTENSION in extensions)
        self.configured_records = await self._max_batch_size() if reply.status == 200 else None
        return _json_of(reply)

    async def _max_batch_size(self) -> int | None:
        """Return the most records in a request, which the configuration of a model says that Triton
        has; None without one."""
        try:
            found = _json_of(
                await self._server.exchange(
                    "GET", f"{without_end(self._server.url, '/infer')}/config"
                )
            )
        except Fault:
            return None
        most = found.get("max_batch_size") if isinstance(found, dict) else None
        return most if type(most) is int and most > 0 else None  # 0: the model does not batch

    async def exchange(
        self, tensors: list[Tensor]
    ) -> tuple[bytes, Callable[[], list[ModelOutput]]]:
        """Send one request."""
        body: Body
        headers: Mapping[str, str] = JSON_HEADERS
        if self.is_json:
            body = encode_json(tensors, self.signature)
        else:
            body, headers = encode_bytes(tensors, self.signature)
        tensors.clear()  # the body has the values, and the response may take long
        reply = await self._server.exchange("POST", self._server.url, body, headers=headers)
        if reply.status != 200:
            raise self._server.unsuccessful(reply)
        return reply.body, partial(decode_response, reply.body, reply.headers)


def _json_of(reply: Response) -> object:
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
    async with open_model_server(
        model, infer_url(model.model_url, model.model_name), context
    ) as server:
        yield V2Rest(server, model, context.contract.tensors)

"""Sends batches to a model server with V2 REST over one connection pool.

Each call is one try; the pipeline retries, which is safe because inference has no side effects. Values are sent as JSON, or as
bytes if the server advertises the binary extension and the datatype is one that can be sent in this way.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import orjson

from inferrun.plugins import Batch, Fault, JsonRecords, Model, ModelContext, Records, Results, Tensors
from runner.http1.response import Response
from runner.json_text import json_texts
from runner.model_server import JSON_HEADERS, ModelServer, open_model_server
from runner.record_errors import predict_valid, without_infinity
from runner.retries import with_retries
from runner.v2 import binary, raw
from runner.v2.address import infer_url, metadata_url, server_url
from runner.v2.mapped import (
    AS_BYTES,
    TensorMap,
    TensorValues,
    encode_json,
    map_of,
    mismatch_of,
    predict_mapped,
    raw_tensor,
)
from runner.v2.tensors import InputTensor, encode, input_tensor, width_of, with_input_errors

_log = logging.getLogger(__name__)


class V2Rest:
    """The model behind one infer URL."""

    max_records: ClassVar[int | None] = None

    def __init__(self, model: Model, server: ModelServer) -> None:
        self._model = model
        self._server = server
        self._tensor = InputTensor(name=model.model_input_name)
        self._tensors = Tensors()
        self._map = TensorMap()
        self._is_binary = False

    def map_tensors(self, tensors: Tensors) -> None:
        """Use these tensors."""
        self._tensors = tensors

    async def prepare(self) -> None:
        """Read the name, shape and datatype of the input, and ask whether the server takes bytes."""
        reply = await with_retries(
            lambda: self._server.exchange("GET", metadata_url(self._server.url)),
            budget=self._server.limits.retry_seconds,
        )
        if reply.status != 200:
            # Not every server has metadata; if the model itself is missing, the first request reports it.
            _log.info("the model has no metadata; assuming shape [n, m]", extra={"status": reply.status})
        metadata, wanted = _json_of(reply), self._model.model_input_name
        self._tensor = input_tensor(metadata, wanted)
        self._map = map_of(self._tensors, metadata, wanted)
        self._is_binary = self._can_be_binary() and await self._advertises_binary()

    def _can_be_binary(self) -> bool:
        if self._map.inputs:
            return all(tensor.datatype in AS_BYTES for tensor in self._map.inputs)
        return self._tensor.datatype in raw.SENDABLE

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the rows that the model's datatype cannot represent, or JSON."""
        finite = batch if self._is_binary else without_infinity(batch)
        return await predict_valid(finite, self._predict_batch) if finite.errors else await self._predict_batch(batch)

    async def _predict_batch(self, batch: Batch) -> Results:
        records: Records = batch.records
        if self._map.inputs:
            return await predict_mapped(records, self._map.inputs, self._send)
        omitted = [] if self._is_binary else self._tensor.unsendable(json_texts(records))
        if not omitted:
            try:
                return await self._predict(records)
            except raw.Unsendable:
                omitted = raw.unsendable(json_texts(records), self._tensor.datatype)
        texts = json_texts(records)
        left = set(omitted)
        sendable = [text for at, text in enumerate(texts) if at not in left]
        results = await self._predict(JsonRecords(sendable)) if sendable else None
        what = "a value" if self._is_binary else "null"
        return with_input_errors(results, omitted, total=len(texts), tensor=self._tensor, what=what)

    async def _predict(self, records: Records) -> Results:
        width = width_of(records)
        body, headers = self._encode(records, width=width)
        return await self._infer(body, headers, records=len(records), hint=self._width_hint(width))

    async def _send(self, tensors: list[TensorValues], records: int) -> Results:
        if self._is_binary:
            body, headers = binary.encode(list(map(raw_tensor, tensors)), self._map.outputs)
        else:
            body, headers = encode_json(tensors, self._map.outputs), JSON_HEADERS
        return await self._infer(body, headers, records=records)

    async def _infer(self, body: bytes, headers: dict[str, str], *, records: int, hint: str = "") -> Results:
        reply = await self._server.exchange("POST", self._server.url, body, headers=headers, hint=hint)
        if reply.status != 200:
            raise self._server.unsuccessful(reply, hint=hint)
        try:
            return binary.decode_response(reply.body, reply.headers, records=records, outputs=self._map.outputs)
        except ValueError as error:
            raise self._server.invalid("V2", reply.body, error) from error

    def _encode(self, records: Records, *, width: int) -> tuple[bytes, dict[str, str]]:
        if self._is_binary:
            tensor = self._tensor
            values = raw.encode_records(records, tensor.datatype)
            shape = tensor.shape(len(records), width)
            return binary.encode([raw.RawTensor(tensor.name, tensor.datatype, shape, values)], self._map.outputs)
        return encode(json_texts(records), self._tensor, self._map.outputs), JSON_HEADERS

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
        """Compare the width of the records, or their columns, with the metadata."""
        if self._map.inputs:
            return mismatch_of(records, self._map, target=self._server.target)
        hint = self._width_hint(width_of(records))
        return f"{self._server.target}{hint}" if hint else ""

    def _width_hint(self, width: int) -> str:
        """Mention a width that differs from the metadata. It is only a hint, because metadata may be wrong."""
        if self._tensor.width in {0, width}:
            return ""
        return f"; the model's metadata requires {self._tensor.width} numbers per record, the input has {width}"


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

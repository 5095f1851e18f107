"""Sends batches to a model server with V2 REST over one connection pool.

Each call is one try; the pipeline retries, which is safe because inference has no side effects.

It requests identity encoding: servers that compress by default spend most of their time on it (with MLServer, large responses
take seven times as long).
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import aiohttp
import orjson

from inferrun.plugins import Batch, FaultKind, InferenceError, Limits, Model, ModelContext, Results
from inferrun.text import public_url
from runner.connector import CONNECT_SECONDS, open_session
from runner.http_failures import (
    describe_failure,
    fault_of,
    fault_of_response,
    kind_of_status,
    size_of,
)
from runner.json_text import json_texts
from runner.retries import with_retries
from runner.tls import context_of
from runner.v2.address import infer_url, metadata_url
from runner.v2.tensors import InputTensor, decode, encode, input_tensor, width_of_row, with_input_errors

_log = logging.getLogger(__name__)

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}


class V2Rest:
    """The model behind one infer URL."""

    max_records: ClassVar[int | None] = None

    def __init__(self, model: Model, url: str, session: aiohttp.ClientSession, limits: Limits) -> None:
        self._model = model
        self._url = url
        self._session = session
        self._limits = limits
        self._tensor = InputTensor(name=model.model_input_name)

    async def prepare(self) -> None:
        """Read the name and shape of the input from the model's metadata."""
        status, body = await with_retries(
            lambda: self._exchange("GET", metadata_url(self._url)), budget=self._limits.retry_seconds
        )
        metadata: object = None
        if status == 200:
            try:
                metadata = orjson.loads(body)
            except orjson.JSONDecodeError:
                _log.warning("the model's metadata is not valid JSON; assuming shape [n, m]")
        else:
            # Not every server has metadata; if the model itself is missing, the first request reports it.
            _log.info("the model has no metadata; assuming shape [n, m]", extra={"status": status})
        self._tensor = input_tensor(metadata, self._model.model_input_name)

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the rows that the model's datatype cannot represent."""
        texts = json_texts(batch.records)
        unsendable = self._tensor.unsendable(texts)
        if not unsendable:
            return await self._predict(texts)
        omitted = set(unsendable)
        sendable = [text for at, text in enumerate(texts) if at not in omitted]
        results = await self._predict(sendable) if sendable else None
        return with_input_errors(results, unsendable, total=len(texts), tensor=self._tensor)

    async def _predict(self, texts: list[bytes]) -> Results:
        hint = self._width_hint(texts)
        status, body = await self._exchange("POST", self._url, encode(texts, self._tensor), hint=hint)
        if status != 200:
            raise InferenceError(f"{self._target()} returned {status} with {size_of(body)}{_fix(status)}{hint}")
        try:
            return decode(body, records=len(texts))
        except ValueError as error:
            raise InferenceError(
                f"{self._target()} returned an invalid V2 response of {len(body)} bytes: {error}"
            ) from error

    async def _exchange(self, method: str, url: str, body: bytes | None = None, *, hint: str = "") -> tuple[int, bytes]:
        try:
            async with self._session.request(
                method, url, data=body, headers=_HEADERS, allow_redirects=False
            ) as response:
                content = await self._read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = describe_failure(error, seconds=self._limits.request_timeout)
            raise fault_of(error, InferenceError(f"{self._target()}: {text}")) from error
        if kind_of_status(response.status) is not FaultKind.FAILED:
            text = f"{self._target()} returned {response.status} with {size_of(content)}{_fix(response.status)}{hint}"
            raise fault_of_response(response, InferenceError(text))
        return response.status, content

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read a body up to the limit."""
        limit = self._limits.response_bytes
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > limit:
                raise InferenceError(
                    f"{self._target()} returned more than {limit} bytes; set a smaller INFERRUN_BATCH_ROWS or a larger "
                    "INFERRUN_RESPONSE_BYTES in the image",
                    is_retryable=False,
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _width_hint(self, texts: list[bytes]) -> str:
        """Mention a width that differs from the metadata. It is only a hint, because metadata may be wrong."""
        width = width_of_row(texts[0])
        if self._tensor.width in {0, width}:
            return ""
        return f"; the model's metadata requires {self._tensor.width} numbers per record, the input has {width}"

    def _target(self) -> str:
        return f"model {self._model.model_name or '(no modelName)'!r} at {public_url(self._url)}"


def _fix(status: int) -> str:
    match status:
        case 404:
            return "; check kserve.modelUrl and that the model is loaded"
        case 400 | 422:
            return "; check kserve.modelInputName and the number of values per record"
        case 401 | 403:
            return "; the server requires credentials, which the runner does not send"
        case 413:
            return (
                "; the server or a proxy rejects requests of this size; set a smaller INFERRUN_BATCH_ROWS in the image"
            )
        case _:
            return "; see the log of the model server"


@asynccontextmanager
async def open_v2(model: Model, context: ModelContext) -> AsyncIterator[V2Rest]:
    """Open the protocol `v2`."""
    limits = context.limits
    url = infer_url(model.model_url, model.model_name)
    timeout = aiohttp.ClientTimeout(
        total=limits.request_timeout, sock_connect=min(CONNECT_SECONDS, limits.request_timeout)
    )
    tls = context_of(model, context.credentials_dir.parent)
    async with open_session(limits, timeout=timeout, size=limits.concurrency, tls=tls) as session:
        yield V2Rest(model, url, session, limits)

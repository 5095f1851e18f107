"""Sends batches to a model server with V2 REST over one connection pool.

Each call is one try; the pipeline retries, which is safe because inference has no side effects.

It requests identity encoding: servers that compress by default spend most of their time on it (with MLServer, large responses
take seven times as long).
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import orjson

from inferrun.plugins import Batch, InferenceError, Limits, Model, Prediction, TransientError
from runner.connector import open_session
from runner.http_failures import (
    CONNECT_SECONDS,
    describe_failure,
    excerpt,
    is_connection_lost,
    is_timeout,
    is_transient,
    retry_after_of,
)
from runner.retries import TRANSIENT_STATUSES, with_retries
from runner.v2.address import infer_url, metadata_url
from runner.v2.tensors import InputTensor, decode, encode, input_tensor, with_input_errors

_log = logging.getLogger(__name__)

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}


class V2Rest:
    """The model behind one infer URL."""

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

    async def predict(self, batch: Batch) -> Sequence[Prediction]:
        """Send one batch, without the rows that the model's datatype cannot represent."""
        sendable = self._tensor.sendable(batch.rows)
        if len(sendable) == len(batch.rows):
            return await self._predict(batch)
        if not sendable:
            return with_input_errors([], batch.rows, self._tensor)
        predictions = await self._predict(Batch(first=batch.first, rows=sendable))
        return with_input_errors(predictions, batch.rows, self._tensor)

    async def _predict(self, batch: Batch) -> list[Prediction]:
        status, body = await self._exchange("POST", self._url, encode(batch.rows, self._tensor))
        if status != 200:
            raise InferenceError(
                f"{self._target()} returned {status}: {excerpt(body)}{_fix(status)}{self._width_hint(batch)}"
            )
        try:
            return decode(body, records=len(batch.rows))
        except ValueError as error:
            raise InferenceError(
                f"{self._target()} returned an invalid V2 response: {error}; the body begins: {excerpt(body)}"
            ) from error

    async def _exchange(self, method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
        try:
            async with self._session.request(
                method, url, data=body, headers=_HEADERS, allow_redirects=False
            ) as response:
                content = await self._read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = describe_failure(error, seconds=self._limits.request_timeout)
            failed = InferenceError(f"{self._target()}: {text}")
            if not is_transient(error):
                raise failed from error
            raise TransientError(
                failed, is_connection_lost=is_connection_lost(error), is_timeout=is_timeout(error)
            ) from error
        if response.status in TRANSIENT_STATUSES:
            busy = InferenceError(f"{self._target()} returned {response.status}: {excerpt(content)}")
            raise TransientError(busy, retry_after=retry_after_of(response))
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

    def _width_hint(self, batch: Batch) -> str:
        """Mention a width that differs from the metadata. It is only a hint, because metadata may be wrong."""
        width = len(batch.rows[0])
        if self._tensor.width in {0, width}:
            return ""
        return f"; the model's metadata requires {self._tensor.width} numbers per record, the input has {width}"

    def _target(self) -> str:
        return f"model {self._model.model_name or '(no modelName)'!r} at {self._url}"


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
            return ""


@asynccontextmanager
async def open_v2(model: Model, limits: Limits) -> AsyncIterator[V2Rest]:
    """Open the protocol `v2`."""
    url = infer_url(model.model_url, model.model_name)
    timeout = aiohttp.ClientTimeout(
        total=limits.request_timeout, sock_connect=min(CONNECT_SECONDS, limits.request_timeout)
    )
    async with open_session(limits, timeout=timeout, size=limits.concurrency) as session:
        yield V2Rest(model, url, session, limits)

"""A model server over REST, as its protocols use it: one try per call, classified, and described by status and size.

It requests identity encoding: servers that compress by default spend most of their time on it (with MLServer, large responses
take seven times as long). Redirects are not followed.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp

from inferrun.plugins import FaultKind, InferenceError, Limits, Model, ModelContext
from inferrun.text import public_url
from runner.connector import CONNECT_SECONDS, open_session
from runner.http_failures import describe_failure, fault_of, fault_of_response, kind_of_status, size_of
from runner.tls import context_of

JSON_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A response that was read completely."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ModelServer:
    """The model behind one URL."""

    def __init__(self, model: Model, url: str, session: aiohttp.ClientSession, limits: Limits) -> None:
        self.url = url
        self.limits = limits
        self.target = f"model {model.model_name or '(no modelName)'!r} at {public_url(url)}"
        """The model, as messages name it."""

        self._session = session

    async def exchange(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] = JSON_HEADERS,
        hint: str = "",
    ) -> Reply:
        """Send one request. Raises Fault for what a retry or another request may change; `hint` is added to its text."""
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                content = await self._read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = describe_failure(error, seconds=self.limits.request_timeout)
            raise fault_of(error, InferenceError(f"{self.target}: {text}")) from error
        if kind_of_status(response.status) is not FaultKind.FAILED:
            raise fault_of_response(response, self.failed(response.status, content, hint=hint))
        return Reply(response.status, content, response.headers)

    def failed(self, status: int, body: bytes, *, hint: str = "") -> InferenceError:
        """Describe a response that is not a success."""
        return InferenceError(f"{self.target} returned {status} with {size_of(body)}{_fix(status)}{hint}")

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read a body up to the limit."""
        limit = self.limits.response_bytes
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > limit:
                raise InferenceError(
                    f"{self.target} returned more than {limit} bytes; set a smaller INFERRUN_BATCH_ROWS or a larger "
                    "INFERRUN_RESPONSE_BYTES in the image",
                    is_retryable=False,
                )
            pieces.append(piece)
        return b"".join(pieces)


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
async def open_model_server(model: Model, url: str, context: ModelContext) -> AsyncIterator[ModelServer]:
    """Open a connection pool to a model server."""
    limits = context.limits
    timeout = aiohttp.ClientTimeout(
        total=limits.request_timeout, sock_connect=min(CONNECT_SECONDS, limits.request_timeout)
    )
    tls = context_of(model, context.credentials_dir.parent)
    async with open_session(limits, timeout=timeout, size=limits.concurrency, tls=tls) as session:
        yield ModelServer(model, url, session, limits)

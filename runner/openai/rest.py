"""Sends the requests of an input file of OpenAI's Batch API to a server with OpenAI's API.

Chat completions, completions, responses and embeddings. One record is one request; the server batches. A request that the server
rejects is a failed record, with the response in its place. Each call is one try; the pipeline retries.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import aiohttp

from inferrun.plugins import (
    Batch,
    ContractError,
    Fault,
    FaultKind,
    InferenceError,
    JsonRecords,
    Limits,
    Model,
    ModelContext,
    RecordError,
    Results,
    failed,
)
from inferrun.text import public_url
from runner.connector import CONNECT_SECONDS, open_session
from runner.http_failures import (
    describe_failure,
    fault_of,
    fault_of_response,
    kind_of_status,
    retry_after_of,
    size_of,
)
from runner.json_text import json_texts
from runner.openai.requests import (
    InvalidRequest,
    Request,
    base_url,
    error_body,
    parse_request,
    parse_response,
    result_text,
    without_user,
)
from runner.retries import with_retries
from runner.tls import context_of

_TOKEN_KEYS = ("token", "apiKey", "OPENAI_API_KEY")
_CREDENTIALS = frozenset({401, 403})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class OpenAiRest:
    """A server with OpenAI's API."""

    max_records: ClassVar[int | None] = 1

    def __init__(self, model: Model, url: str, session: aiohttp.ClientSession, limits: Limits) -> None:
        self._model = model.model_name
        self._url = url
        self._session = session
        self._limits = limits

    async def prepare(self) -> None:
        """Check that the server can be reached and accepts the credentials. Not every server lists its models."""
        await with_retries(self._list_models, budget=self._limits.retry_seconds)

    async def predict(self, batch: Batch) -> Results:
        """Send the request of one record."""
        (line,) = json_texts(batch.records)
        try:
            request = parse_request(line, model=self._model)
        except InvalidRequest as error:
            return failed(RecordError("invalid_input", str(error)))
        try:
            async with self._session.post(
                f"{self._url}{request.path}", data=request.body, allow_redirects=False
            ) as response:
                content = await self._read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failure(error) from error
        request_id = response.headers.get("x-request-id", "")[:128]
        if response.status != 200:
            raise self._rejection(request, response, content, request_id)
        try:
            body, usage = parse_response(content)
        except ValueError as error:
            raise InferenceError(f"{self._target(request.path)} returned {size_of(content)} that is {error}") from error
        return Results(JsonRecords([result_text(200, request_id, body)]), usage=usage)

    async def _list_models(self) -> None:
        try:
            async with self._session.get(f"{self._url}/v1/models", allow_redirects=False) as response:
                content = await self._read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failure(error) from error
        if response.status in _CREDENTIALS:
            raise self._refused(response.status)
        if response.status in _REDIRECTS:
            raise self._redirected("/v1/models", response.status)
        if response.status >= 500 or response.status == 429:
            text = f"{self._target('/v1/models')} returned {response.status} with {size_of(content)}"
            raise fault_of_response(response, InferenceError(text))

    def _rejection(
        self, request: Request, response: aiohttp.ClientResponse, content: bytes, request_id: str
    ) -> Exception:
        status = response.status
        if status in _CREDENTIALS:
            return self._refused(status)
        if status in _REDIRECTS:
            return self._redirected(request.path, status)
        error = InferenceError(f"{self._target(request.path)} returned {status} with {size_of(content)}")
        kind = kind_of_status(status)
        if kind is FaultKind.FAILED:
            kind = FaultKind.REJECTED  # such as 404 for a model, and 500 for a prompt that the server cannot handle
        text = result_text(status, request_id, error_body(content))
        results = Results(JsonRecords([text]), {0: RecordError(f"http_{status}", str(error))})
        return Fault(error, kind=kind, retry_after=retry_after_of(response), results=results)

    def _refused(self, status: int) -> InferenceError:
        return InferenceError(
            f"the server at {public_url(self._url)} returned {status}; kserve.credentialsRef needs a valid key 'token'",
            is_retryable=False,
        )

    def _redirected(self, path: str, status: int) -> InferenceError:
        return InferenceError(
            f"{self._target(path)} returned {status}; redirects are not followed, because they may lead anywhere; set "
            "kserve.modelUrl to the final address",
            is_retryable=False,
        )

    def _failure(self, error: Exception) -> Fault:
        text = describe_failure(error, seconds=self._limits.request_timeout)
        return fault_of(error, InferenceError(f"server at {public_url(self._url)}: {text}"))

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read a body up to the limit."""
        limit, pieces, size = self._limits.response_bytes, list[bytes](), 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > limit:
                raise InferenceError(
                    f"the server at {public_url(self._url)} returned more than {limit} bytes; set a larger "
                    "INFERRUN_RESPONSE_BYTES in the image",
                    is_retryable=False,
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _target(self, path: str) -> str:
        return f"server at {public_url(self._url)}{path}"


def _headers(credentials: Path) -> dict[str, str]:
    """Return the headers of every request. The token never becomes part of a message."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    for key in _TOKEN_KEYS:
        path = credentials / key
        if path.exists():
            token = path.read_text(encoding="utf-8").strip()
            if not token.isascii() or not token.isprintable():
                raise ContractError(f"kserve.credentialsRef: key {key} must be printable ASCII on one line")
            return headers | {"Authorization": f"Bearer {token}"}
    return headers


@asynccontextmanager
async def open_openai(model: Model, context: ModelContext) -> AsyncIterator[OpenAiRest]:
    """Open the protocol `openai`."""
    limits = context.limits
    url = base_url(model.model_url)
    timeout = aiohttp.ClientTimeout(
        total=limits.request_timeout, sock_connect=min(CONNECT_SECONDS, limits.request_timeout)
    )
    headers = _headers(context.credentials_dir)
    if "Authorization" in headers:
        url = without_user(url)  # the Secret takes precedence; two credentials cannot be sent
    tls = context_of(model, context.credentials_dir.parent)
    async with open_session(limits, timeout=timeout, size=limits.concurrency, tls=tls, headers=headers) as session:
        yield OpenAiRest(model, url, session, limits)

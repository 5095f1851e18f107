"""Sends the requests of an input file of OpenAI's Batch API to a server with OpenAI's API.

Chat completions, completions, responses and embeddings. One record is one request; the server batches. A request that the server
rejects is a failed record, with the response in its place, and so is one whose response is no JSON object, such as an embedding
with NaN. Each call is one try; the pipeline retries.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from inferrun.formats.json_text import json_texts
from inferrun.formats.record_errors import not_sent
from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    InferenceError,
    JsonRecords,
    Model,
    ModelContext,
    RecordError,
    Results,
    failed,
)
from inferrun.plugins.http import fault_of_status, kind_of_status, retry_after_of, size_of
from inferrun.text import public_url
from runner.network.http_client import Response
from runner.network.model_server import ModelServer, open_model_server
from runner.network.retries import with_retries
from runner.protocols.model_urls import base_url
from runner.protocols.openai.requests import (
    InvalidRequest,
    Request,
    error_body,
    parse_request,
    parse_response,
    reason_of,
    result_text,
)

_CREDENTIALS = frozenset({401, 403})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class OpenAiRest:
    """A server with OpenAI's API."""

    max_records: int | None = 1

    def __init__(self, model: Model, server: ModelServer) -> None:
        self._model = model.model_name
        self._server = server

    async def prepare(self) -> None:
        """Check that the server can be reached and accepts the credentials. Not every server lists its models."""
        await with_retries(self._list_models, budget=self._server.limits.retry_seconds)

    async def predict(self, batch: Batch) -> Results:
        """Send the request of one record."""
        (line,) = json_texts(batch.records)
        try:
            request = parse_request(line, model=self._model)
        except InvalidRequest as error:
            return failed(not_sent(str(error)))
        url = f"{self._server.url}{request.path}"
        response = await self._server.send("POST", url, request.body)
        request_id = response.headers.get("x-request-id", "")[:128]
        if response.status != 200:
            raise self._rejection(request, response, request_id)
        try:
            body, usage = parse_response(response.body)
        except ValueError as error:
            text = f"{self._target(request.path)} returned {size_of(response.body)} that is {error}"
            raise Fault(InferenceError(text), kind=FaultKind.INVALID) from error
        return Results(JsonRecords([result_text(200, request_id, body)]), usage=usage)

    async def _list_models(self) -> None:
        response = await self._server.send("GET", f"{self._server.url}/v1/models")
        self._check_access("/v1/models", response.status)
        if response.status >= 500 or response.status == 429:
            text = f"{self._target('/v1/models')} returned {response.status} with {size_of(response.body)}"
            raise fault_of_status(response.status, response.headers, InferenceError(text))

    def _rejection(self, request: Request, response: Response, request_id: str) -> Fault:
        status = response.status
        self._check_access(request.path, status)
        reason = reason_of(response.body, request=request.body)
        said = f": {reason}" if reason else f" with {size_of(response.body)}"
        error = InferenceError(f"{self._target(request.path)} returned {status}{said}")
        kind = kind_of_status(status)
        if kind is FaultKind.FAILED:
            kind = FaultKind.SERVER_ERROR if status >= 500 else FaultKind.REJECTED  # such as 404 for a model
        text = result_text(status, request_id, error_body(response.body))
        results = Results(JsonRecords([text]), {0: RecordError(f"http_{status}", str(error))})
        return Fault(error, kind=kind, retry_after=retry_after_of(response.headers), results=results)

    def _check_access(self, path: str, status: int) -> None:
        if status in _CREDENTIALS:
            raise InferenceError(
                f"the server at {public_url(self._server.url)} returned {status}; kserve.credentialsRef needs a valid key 'token'",
                is_retryable=False,
            )
        if status in _REDIRECTS:
            raise InferenceError(
                f"{self._target(path)} returned {status}; redirects are not followed, because they may lead anywhere; set "
                "kserve.modelUrl to the final address",
                is_retryable=False,
            )

    def _target(self, path: str) -> str:
        return f"server at {public_url(self._server.url)}{path}"


@asynccontextmanager
async def open_openai(model: Model, context: ModelContext) -> AsyncIterator[OpenAiRest]:
    """Open the protocol `openai`."""
    url = base_url(model.model_url)
    async with open_model_server(model, url, context, target=f"server at {public_url(url)}") as server:
        yield OpenAiRest(model, server)

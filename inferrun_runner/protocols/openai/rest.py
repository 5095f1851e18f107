"""Sends requests to a server with OpenAI's API: those of an input file of the Batch API, or prompts
that are made of columns.

A request that the server rejects is a failed record, and so is one whose response has NaN. Each
call is one try; the pipeline retries.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from inferrun.formats.json_spans import has_constants
from inferrun.formats.record_errors import not_sent
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import (
    Batch,
    Duplicates,
    FaultKind,
    JsonRecords,
    Model,
    ModelAbilities,
    ModelContext,
    ModelProtocol,
    RecordError,
    Records,
    Results,
    failed,
)
from inferrun.text import public_url
from inferrun_runner.network.exchanges import Response
from inferrun_runner.network.model_server import ModelServer, open_model_server
from inferrun_runner.protocols.model_urls import base_url
from inferrun_runner.protocols.openai.requests import (
    NotARequest,
    error_body,
    parse_request,
    parse_response,
    request_key,
    result_text,
)
from inferrun_runner.protocols.openai.server import RequestServer


class OpenAiRest:
    """A server with OpenAI's API, to which the requests of a file are sent."""

    max_records: int | None = 1

    def __init__(self, model: Model, server: ModelServer) -> None:
        self._model = model.model_name
        self._server = RequestServer(server)

    @property
    def abilities(self) -> ModelAbilities:
        """Requests are compared without their ids."""
        return ModelAbilities(keys_of=self.keys_of)

    def keys_of(self, records: Records, duplicates: Duplicates) -> Sequence[bytes | None]:
        """Return a key for each request, in Auto for those whose answer does not vary."""
        is_any = duplicates is Duplicates.SEND_ONCE
        return [request_key(line, is_any=is_any) for line in json_texts(records)]

    async def prepare(self) -> None:
        """Check that the server can be reached and accepts the credentials."""
        await self._server.list_models()

    async def predict(self, batch: Batch) -> Results:
        """Send the request of one record."""
        (line,) = json_texts(batch.records)
        try:
            path, sent = parse_request(line, model=self._model)
        except NotARequest as error:
            return failed(not_sent(str(error)))
        response = await self._server.post(path, sent, in_place=_refusal)
        try:
            body, usage = parse_response(response.body)
        except ValueError as error:
            raise self._server.invalid(path, response, str(error)) from error
        if has_constants(body):
            text = "the response has NaN or infinity, which JSON cannot represent"
            return Results(JsonRecords([b"null"]), {0: RecordError(FaultKind.INVALID, text)}, usage)
        return Results(
            JsonRecords([result_text(response.status, _id_of(response), body)]), usage=usage
        )


def _id_of(response: Response) -> str:
    return response.headers.get("x-request-id", "")[:128]


def _refusal(response: Response) -> JsonRecords:
    return JsonRecords([result_text(response.status, _id_of(response), error_body(response.body))])


@asynccontextmanager
async def open_openai(model: Model, context: ModelContext) -> AsyncIterator[ModelProtocol]:
    """Open the protocol `openai`."""
    url = base_url(model.model_url)
    async with open_model_server(
        model, url, context, target=f"server at {public_url(url)}"
    ) as server:
        if (request := context.contract.request) is None:
            yield OpenAiRest(model, server)
        else:
            from inferrun_runner.protocols.prompts.model import prompt_model  # noqa: PLC0415  files of requests need no templates

            yield prompt_model(model, request, RequestServer(server), context)

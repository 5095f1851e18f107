"""Posts JSON that is made of the columns of a record, and takes values out of the response: the
protocol of every other server.

One record is one request. A request that the server rejects is a failed record. Each call is one
try; the pipeline retries.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from inferrun.contract import Request
from inferrun.formats.json_pointer import MISSING, at_pointer, parse_pointer
from inferrun.formats.json_spans import load_any
from inferrun.formats.record_errors import INVALID_PREDICTION
from inferrun.plugins import ContractError, Model, ModelContext, RecordError, TokenUsage
from inferrun.text import public_url
from inferrun_runner.network.model_server import open_model_server
from inferrun_runner.protocols.model_urls import parts_of
from inferrun_runner.protocols.openai.server import RequestServer
from inferrun_runner.protocols.prompts.bodies import Members, encoded
from inferrun_runner.protocols.prompts.predictions import Prediction, Predictions, form_of_output
from inferrun_runner.protocols.prompts.row_model import RowModel, check_request, templates_of
from inferrun_runner.protocols.prompts.templates import Row, Templates


class JsonHttp(RowModel):
    """A server that answers JSON with JSON."""

    def __init__(self, request: Request, server: RequestServer, templates: Templates) -> None:
        self._path = request.path
        self._server = server
        self._body = templates.value(request.body, field="request.body")
        self._outputs = [(one.name, one.path, parse_pointer(one.path)) for one in request.outputs]
        forms = {one.name: form_of_output(one.type) for one in request.outputs}
        super().__init__(templates, Predictions(forms, is_checked=True, required=forms))

    async def prepare(self) -> None:
        """Nothing is known of the server; the first request finds out whether it answers."""

    def body_of(self, row: Row) -> Members:
        """Return the body for a record."""
        body: Members = self._body(row)
        encoded(body)
        return body

    async def predict_bodies(
        self, bodies: Sequence[Members]
    ) -> tuple[list[Prediction | RecordError], TokenUsage]:
        """Send the body of one record."""
        response = await self._server.post(self._path, encoded(bodies[0]), in_place=self.nothing)
        try:
            value = load_any(response.body)
        except ValueError as error:
            raise self._server.invalid(self._path, response, str(error)) from error
        found = {name: at_pointer(value, parts) for name, _, parts in self._outputs}
        missing = [path for name, path, _ in self._outputs if found[name] is MISSING]
        if missing:
            return [
                RecordError(INVALID_PREDICTION, f"the response has no value at {missing[0]}")
            ], TokenUsage()
        return [found], TokenUsage()


@asynccontextmanager
async def open_http(model: Model, context: ModelContext) -> AsyncIterator[JsonHttp]:
    """Open the protocol `http`."""
    request = context.contract.request
    if request is None:
        raise ContractError(
            "request: required with the protocol http; set spec.request in the InferenceConfig"
        )
    check_request(request, protocol="http")
    parts = parts_of(model.model_url)
    url = parts._replace(query="").geturl() if request.path else parts.geturl()
    async with open_model_server(
        model, url, context, target=f"server at {public_url(url)}"
    ) as server:
        yield JsonHttp(request, RequestServer(server), templates_of(context))

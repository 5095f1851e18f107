"""A server to which requests are posted one by one, and what its refusals mean for the record:
OpenAI's API, and others in JSON."""

from collections.abc import Callable

from inferrun.plugins import Fault, FaultKind, InferenceError, RecordError, Records, Results
from inferrun.plugins.http import fault_of_status, kind_of_status, retry_after_of, size_of
from inferrun_runner.network.exchanges import Response
from inferrun_runner.network.model_server import NO_ACCESS, ModelServer, kind_of_refusal
from inferrun_runner.network.retries import with_retries
from inferrun_runner.protocols.openai.requests import model_in, reason_of


class RequestServer:
    """Sends requests, each once. A request that the server rejects is a failed record."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    async def list_models(self) -> None:
        """Check that the server can be reached and accepts the credentials. Not every server lists
        its models."""
        await with_retries(self._list_models, budget=self._server.limits.retry_seconds)

    async def post(
        self, path: str, body: bytes, *, in_place: Callable[[Response], Records]
    ) -> Response:
        """Post a body and return the response, which is a success. Raises Fault.

        `in_place` returns what is stored in place of the prediction of a record that is rejected.
        """
        response = await self._server.send("POST", f"{self._server.url}{path}", body)
        if not 200 <= response.status < 300:
            raise self._rejection(path, body, response, in_place)
        return response

    def invalid(self, path: str, response: Response, why: str) -> Fault:
        """Return the fault of a response that is not what was expected."""
        text = f"{self._target(path)} returned {size_of(response.body)} that is {why}"
        return Fault(InferenceError(text), kind=FaultKind.INVALID)

    async def _list_models(self) -> None:
        response = await self._server.send("GET", f"{self._server.url}/v1/models")
        self._check_access(response)
        # The predictions decide what a 500 means: Portkey's gateway 1.15 answers each list with
        # one.
        if kind_of_status(response.status) is not FaultKind.FAILED:
            text = f"{self._target('/v1/models')} returned {response.status} with {size_of(response.body)}"
            raise fault_of_status(response.status, response.headers, InferenceError(text))

    def _rejection(
        self, path: str, body: bytes, response: Response, in_place: Callable[[Response], Records]
    ) -> Fault:
        status = response.status
        reason = reason_of(response.body, request=body)
        said = f": {reason}" if reason else f" with {size_of(response.body)}"
        error = InferenceError(f"{self._target(path)} returned {status}{said}")
        kind = kind_of_refusal(status)
        if kind is FaultKind.DENIED:
            error = self._no_access(response)
        elif kind is FaultKind.NOT_SERVED:
            model = model_in(body)
            what = f"model {model!r}" if model else "the address"
            error = InferenceError(f"{error}; check that {what} is served")
        results = Results(in_place(response), {0: RecordError(f"http_{status}", str(error))})
        return Fault(
            error, kind=kind, retry_after=retry_after_of(response.headers), results=results
        )

    def _check_access(self, response: Response) -> None:
        if response.status in NO_ACCESS:
            raise self._no_access(response)

    def _no_access(self, response: Response) -> InferenceError:
        return InferenceError(
            str(self._server.failed(response.status, response.body)), is_retryable=False
        )

    def _target(self, path: str) -> str:
        return f"{self._server.target}{path.partition('?')[0]}"

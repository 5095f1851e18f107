"""A model server over REST, as its protocols use it: one try per call, classified, and described by
status and size.

It requests identity encoding: servers that compress by default spend most of their time on it (with
MLServer, large responses take seven times as long). Redirects are not followed.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal
from urllib.parse import urlsplit

from inferrun.plugins import Fault, FaultKind, InferenceError, Limits, Model, ModelContext
from inferrun.plugins.http import ExchangeFailed, fault_of_status, kind_of_status, size_of
from inferrun.text import public_url
from inferrun_runner.network.exchanges import Body, Response, ResponseTooLarge
from inferrun_runner.network.model_credentials import ModelCredentials
from inferrun_runner.network.model_headers import ModelHeaders, check_one_authorization, proxy_of
from inferrun_runner.network.network_failures import SHAPE_FIX
from inferrun_runner.network.plain_client import PlainClient, open_plain_client
from inferrun_runner.network.tls import context_of

NO_ACCESS: Final = frozenset({401, 403, 301, 302, 303, 307, 308})
"""The server requires credentials, or has another address. No request can succeed, unless others
are answered."""

JSON_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}

_FIXES: Final = {
    **dict.fromkeys(
        (401, 403),
        "the server requires credentials; name a Secret that has them with kserve.credentialsRef or kserve.headers",
    ),
    **dict.fromkeys(
        (301, 302, 303, 307, 308),
        "redirects are not followed, because they may lead anywhere; set kserve.modelUrl to the final address",
    ),
    **dict.fromkeys((400, 422), SHAPE_FIX),
    404: "check kserve.modelUrl and that the model is loaded",
    413: "the server or a proxy rejects requests of this size; set a smaller requests.maxBatchRecords in the config",
}
"""What to do about a status."""


def kind_of_refusal(status: int) -> FaultKind:
    """Classify a response to a request with records that is not a success."""
    kind = kind_of_status(status)
    if kind is not FaultKind.FAILED:
        return kind
    if status in NO_ACCESS:
        return FaultKind.DENIED
    return FaultKind.SERVER_ERROR if status >= 500 else FaultKind.NOT_SERVED


class ModelServer:
    """The model behind one URL."""

    def __init__(
        self,
        url: str,
        client: PlainClient,
        limits: Limits,
        *,
        target: str,
        credentials: ModelCredentials,
        headers: ModelHeaders,
        proxy: str,
    ) -> None:
        self.url = url
        self._credentials = credentials
        self._headers = headers
        self._proxy = proxy or None
        self.limits = limits
        self.target = target
        """The model or its server, as messages name it."""

        self._client = client

    async def exchange(
        self,
        method: Literal["GET", "POST"],
        url: str,
        body: Body | None = None,
        *,
        headers: Mapping[str, str] = JSON_HEADERS,
    ) -> Response:
        """Send one request. Raises Fault for what a retry or another request may change."""
        response = await self.send(method, url, body, headers=headers)
        if kind_of_status(response.status) is not FaultKind.FAILED:
            failed = self.failed(response.status, response.body)
            raise fault_of_status(response.status, response.headers, failed)
        return response

    async def send(
        self,
        method: Literal["GET", "POST"],
        url: str,
        body: Body | None = None,
        *,
        headers: Mapping[str, str] = JSON_HEADERS,
    ) -> Response:
        """Send one request and return the response, whatever its status. Raises Fault without a
        response."""
        authorization = self._credentials.authorization()
        headers = {**headers, **self._headers.current()}
        if authorization:
            headers["Authorization"] = authorization
        limit = self.limits.response_bytes
        try:
            return await self._client.exchange(
                method, url, body, headers=headers, limit=limit, proxy=self._proxy
            )
        except ResponseTooLarge as error:
            text = f"{self.target} returned more than {limit} bytes; set a larger limits.response in the config"
            raise error.fault(InferenceError(text, is_retryable=False)) from error
        except ExchangeFailed as error:
            raise error.fault(InferenceError(f"{self.target}: {error}")) from error

    def failed(self, status: int, body: bytes) -> InferenceError:
        """Describe a response that is not a success."""
        fix = _FIXES.get(status, "see the log of the model server")
        if status in {401, 403} and self._credentials.authorization():
            fix = "check the credentials in the Secret of kserve.credentialsRef"
        return InferenceError(f"{self.target} returned {status} with {size_of(body)}; {fix}")

    def unsuccessful(self, response: Response) -> Fault:
        """Return the fault of a response whose status is not that of a success."""
        return Fault(
            self.failed(response.status, response.body), kind=kind_of_refusal(response.status)
        )


@asynccontextmanager
async def open_model_server(
    model: Model, url: str, context: ModelContext, *, target: str = ""
) -> AsyncIterator[ModelServer]:
    """Open a connection pool to a model server; `target` names it in messages. Default: the model
    and its URL."""
    limits, credentials = context.limits, ModelCredentials(context.credentials_dir)
    endpoints = context.credentials_dir.parent
    headers = ModelHeaders(model, endpoints)
    check_one_authorization(headers, credentials)
    if credentials.authorization() or "authorization" in headers:
        # the Secret takes precedence over user information; two credentials cannot be sent
        parts = urlsplit(url)
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    target = target or f"model {model.model_name or '(no modelName)'!r} at {public_url(url)}"
    tls = context_of(model, endpoints)
    async with open_plain_client(limits, seconds=limits.request_timeout, tls=tls) as client:
        proxy = proxy_of(model, endpoints)
        yield ModelServer(
            url,
            client,
            limits,
            target=target,
            credentials=credentials,
            headers=headers,
            proxy=proxy,
        )

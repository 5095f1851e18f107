"""V2 over gRPC, with the values as bytes, and the question whether a model is ready.

gRPC's own resolver is not used: the name is resolved here for each channel, its addresses are
judged under the policy of all connections of the runner, and the channel gets the addresses that
were judged. The proxies of the environment are not used.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import grpc
import grpc.aio

from inferrun.plugins import (
    ContractError,
    Fault,
    FaultKind,
    InferenceError,
    Limits,
    Model,
    ModelContext,
    Tensors,
)
from inferrun.text import public_url
from inferrun_runner.network.connections import AddressRefused, Connections, open_connections
from inferrun_runner.network.exchanges import Refused
from inferrun_runner.network.model_credentials import ModelCredentials
from inferrun_runner.network.model_headers import ModelHeaders, check_one_authorization, proxy_of
from inferrun_runner.network.network_failures import (
    SHAPE_FIX,
    UNKNOWN_AUTHORITY,
    describe_socket_failure,
    describe_timeout,
)
from inferrun_runner.network.retries import with_retries
from inferrun_runner.network.tls import client_certificate_of, root_certificates_of
from inferrun_runner.protocols.readiness import Readiness
from inferrun_runner.protocols.tensors.answers import ModelOutput
from inferrun_runner.protocols.tensors.columns import Tensor
from inferrun_runner.protocols.v2.channels import Channels
from inferrun_runner.protocols.v2.client import V2Client
from inferrun_runner.protocols.v2.grpc_messages import (
    INFER,
    METADATA,
    READY,
    decode_response,
    infer_request,
    is_ready,
    metadata_of,
    name_request,
)

_FIELD: Final = "kserve.modelUrl"

_CREDENTIALS: Final = (
    "the server requires credentials; check the Secret that kserve.credentialsRef names"
)
_LOG: Final = "see the log of the model server"

_FAILURES: Final = {
    grpc.StatusCode.UNAVAILABLE: (
        FaultKind.UNAVAILABLE,
        "check that the server is running and ready",
    ),
    grpc.StatusCode.ABORTED: (FaultKind.BUSY, _LOG),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (FaultKind.BUSY, _LOG),
    grpc.StatusCode.CANCELLED: (FaultKind.LOST, _LOG),
    grpc.StatusCode.DEADLINE_EXCEEDED: (FaultKind.TIMEOUT, ""),
    grpc.StatusCode.INVALID_ARGUMENT: (
        FaultKind.REJECTED,
        SHAPE_FIX,
    ),
    grpc.StatusCode.OUT_OF_RANGE: (FaultKind.REJECTED, _LOG),
    grpc.StatusCode.INTERNAL: (FaultKind.SERVER_ERROR, _LOG),
    grpc.StatusCode.UNKNOWN: (FaultKind.SERVER_ERROR, _LOG),
    grpc.StatusCode.DATA_LOSS: (FaultKind.SERVER_ERROR, _LOG),
    grpc.StatusCode.NOT_FOUND: (
        FaultKind.NOT_SERVED,
        "check kserve.modelName and that the model is loaded",
    ),
    grpc.StatusCode.UNIMPLEMENTED: (
        FaultKind.NOT_SERVED,
        "check that the port of kserve.modelUrl is that of V2 over gRPC",
    ),
    grpc.StatusCode.UNAUTHENTICATED: (FaultKind.DENIED, _CREDENTIALS),
    grpc.StatusCode.PERMISSION_DENIED: (FaultKind.DENIED, _CREDENTIALS),
}
"""What a status means, and what to do about it."""

# What gRPC says about a message over the limit of its receiver, a connection that was closed during
# a call, a server that accepts no connection, and one whose certificate no known authority has
# signed.
_TOO_LARGE: Final = "larger than max"
_CUT_OFF: Final = ("Socket closed", "Connection reset", "Broken pipe")
_UNCONNECTED: Final = "ailed to connect"
_UNVERIFIED: Final = "CERTIFICATE_VERIFY_FAILED"

_WITHOUT_METADATA: Final = (
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNKNOWN,
)

_AWAKE: Final = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""The server asks for credentials, or does not say whether models are ready."""


class GrpcServer:
    """A model and its server."""

    def __init__(
        self,
        model: Model,
        connections: Connections,
        limits: Limits,
        *,
        endpoints: Path,
        credentials: ModelCredentials | None,
    ) -> None:
        """Without credentials, headers whose values are in Secrets are not sent either."""
        self.model = model.model_name
        self._url = server_of(model)
        self._connections = connections
        self.limits = limits
        self._roots = root_certificates_of(model, endpoints)
        self._certificate = client_certificate_of(endpoints)
        self._credentials = credentials
        self._headers = ModelHeaders(
            model, endpoints, has_secrets=credentials is not None, is_grpc=True
        )
        if credentials is not None:
            check_one_authorization(self._headers, credentials)
        if proxy_of(model, endpoints):
            raise ContractError("kserve.proxyUrl: the protocol grpc-v2 uses no proxy; remove it")
        self.target = f"model {self.model!r} at {public_url(self._url.geturl())}"
        self.channels = Channels(self._open, lifetime=limits.connection_seconds)

    async def probe(self) -> Readiness:
        """Ask whether the model is ready. Raises Refused."""
        try:
            ready = is_ready(await self.call(READY, name_request(self.model)))
        except (Fault, InferenceError) as error:
            if isinstance(error.__cause__, AddressRefused):
                raise Refused(str(error.__cause__)) from error
            seen = str(error.error if isinstance(error, Fault) else error)
            return Readiness(is_ready=_status_of(error) in _AWAKE, seen=seen)
        except ValueError as error:
            return Readiness(is_ready=False, seen=f"invalid response: {error}")
        return Readiness(
            is_ready=ready, seen="the model is ready" if ready else "the model is not ready"
        )

    async def call(self, method: str, request: bytes) -> bytes:
        """Call a method, once. Raises Fault and InferenceError."""
        try:
            async with self.channels.channel() as channel:
                call = channel.unary_unary(
                    method, request_serializer=None, response_deserializer=None
                )
                value = self._credentials.authorization() if self._credentials else ""
                given = {name.lower(): text for name, text in self._headers.current().items()}
                given |= {"authorization": value} if value else {}
                given.pop("host", "")  # it is the authority of the channel
                metadata = tuple(given.items()) or None
                response: bytes | None = await call(
                    request, timeout=self.limits.request_timeout, metadata=metadata
                )
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error
        return response or b""  # None: the call succeeded without a message

    def _failure(self, error: grpc.aio.AioRpcError) -> Exception:
        """Describe a failure by its status. gRPC's text is not shown: servers repeat records in
        it."""
        code, details = error.code(), error.details() or ""
        kind, fix = _FAILURES.get(code, (FaultKind.FAILED, _LOG))
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in details:
            kind = FaultKind.TOO_LARGE
        if code is grpc.StatusCode.UNAVAILABLE and any(text in details for text in _CUT_OFF):
            kind = FaultKind.LOST
        text = f"the call failed with {code.name}; {fix}"
        if _UNVERIFIED in details:
            text = f"TLS connection failed: CERTIFICATE_VERIFY_FAILED; {UNKNOWN_AUTHORITY}"
        elif kind is FaultKind.TIMEOUT:
            text = describe_timeout(self.limits.request_timeout)
        failed = InferenceError(f"{self.target}: {text}")
        failed.__cause__ = error
        if kind is FaultKind.FAILED:
            return failed
        return Fault(failed, kind=kind, was_sent=_UNCONNECTED not in details)

    async def _open(self) -> grpc.aio.Channel:
        """Open a channel to the addresses of one family. Raises Fault."""
        host, port = self._url.hostname or "", self._url.port or 0
        try:
            addresses = await self._connections.resolve(host, port)
        except OSError as error:
            kind = FaultKind.FAILED if isinstance(error, AddressRefused) else FaultKind.UNAVAILABLE
            failed = InferenceError(
                f"{self.target}: {describe_socket_failure(error, host=host, port=port)}"
            )
            raise Fault(failed, kind=kind, was_sent=False) from error
        is_ipv6 = ":" in addresses[0]
        same = [
            f"[{one}]:{port}" if is_ipv6 else f"{one}:{port}"
            for one in addresses
            if (":" in one) == is_ipv6
        ]
        target = f"{'ipv6' if is_ipv6 else 'ipv4'}:{','.join(same)}"
        headers = {name.lower(): text for name, text in self._headers.current().items()}
        authority = headers.get("host") or (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        options = [
            ("grpc.default_authority", authority),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
            # otherwise all channels would share a connection
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", self.limits.response_bytes),
        ]
        if self._url.scheme == "grpc":
            return grpc.aio.insecure_channel(target, options=options)
        key, chain = self._certificate or (None, None)
        named = [
            *options,
            ("grpc.ssl_target_name_override", urlsplit(f"//{authority}").hostname or host),
        ]
        return grpc.aio.secure_channel(
            target, grpc.ssl_channel_credentials(self._roots, key, chain), options=named
        )


def _status_of(error: Exception) -> grpc.StatusCode | None:
    return error.__cause__.code() if isinstance(error.__cause__, grpc.aio.AioRpcError) else None


def server_of(model: Model) -> SplitResult:
    """Return the parts of the server's URL. Raises ContractError with the field."""
    given = model.model_url.strip()
    try:
        parts = urlsplit(given if "://" in given else f"grpc://{given}")
        is_valid = parts.scheme in {"grpc", "grpcs"} and bool(parts.hostname) and bool(parts.port)
    except ValueError:
        is_valid = False
    if not is_valid or parts.path.strip("/") or parts.query or parts.username is not None:
        raise ContractError(
            f"{_FIELD}: the protocol grpc-v2 needs host and port of the server, such as iris-predictor.models:8081, or "
            f"grpcs://… for TLS, got {public_url(model.model_url)!r}"
        )
    if not model.model_name:
        raise ContractError("kserve.modelName: required by the protocol grpc-v2")
    return parts


class V2Grpc(V2Client):
    """The model behind one server."""

    def __init__(self, server: GrpcServer, model: Model, tensors: Tensors) -> None:
        self._server = server
        super().__init__(model, tensors, target=server.target)

    async def read_metadata(self) -> object:
        """Read the model's metadata."""
        server = self._server
        request = name_request(server.model)
        try:
            found = await with_retries(
                lambda: server.call(METADATA, request), budget=server.limits.retry_seconds
            )
            return metadata_of(found)
        except ValueError as error:
            raise InferenceError(f"{self.target} returned invalid metadata: {error}") from error
        except (Fault, InferenceError) as error:
            if _status_of(error) in _WITHOUT_METADATA:
                return None  # the first request reports a model that does not exist
            raise

    async def exchange(
        self, tensors: list[Tensor]
    ) -> tuple[bytes, Callable[[], list[ModelOutput]]]:
        """Send one request."""
        request = infer_request(self._server.model, tensors, self.signature)
        tensors.clear()  # the request has the values, and the response may take long
        response = await self._server.call(INFER, request)
        return response, partial(decode_response, response)


@asynccontextmanager
async def _open_server(
    model: Model, limits: Limits, *, endpoints: Path, credentials: ModelCredentials | None = None
) -> AsyncIterator[GrpcServer]:
    server = GrpcServer(
        model, await open_connections(limits), limits, endpoints=endpoints, credentials=credentials
    )
    try:
        yield server
    finally:
        await server.channels.close()


@asynccontextmanager
async def open_grpc(model: Model, context: ModelContext) -> AsyncIterator[V2Grpc]:
    """Open the protocol `grpc-v2`."""
    folder = context.credentials_dir
    credentials = ModelCredentials(folder)
    async with _open_server(
        model, context.limits, endpoints=folder.parent, credentials=credentials
    ) as server:
        yield V2Grpc(server, model, context.contract.tensors)


@asynccontextmanager
async def open_grpc_probe(
    model: Model, limits: Limits, *, seconds: float, endpoints: Path
) -> AsyncIterator[Callable[[], Awaitable[Readiness]]]:
    """A function that asks once whether the model is ready, with that time limit and no
    credentials. It raises Refused."""
    limits = limits.model_copy(update={"request_timeout": seconds})
    async with _open_server(model, limits, endpoints=endpoints) as server:
        yield server.probe

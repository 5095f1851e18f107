"""Asks a server of V2 over gRPC whether its model is ready."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import grpc
import grpc.aio

from inferrun.plugins import Fault, FaultKind, InferenceError, Limits, Model
from runner.network.connections import AddressRefused, open_connections
from runner.network.http_client import Refused
from runner.protocols.readiness import Finding
from runner.protocols.v2.grpc_client import V2Grpc, server_of

REACHABLE: Final = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""The server asks for credentials, or does not say whether models are ready: it is awake."""


@asynccontextmanager
async def open_grpc_probe(
    model: Model, limits: Limits, *, seconds: float, roots: bytes | None, certificate: tuple[bytes, bytes] | None = None
) -> AsyncIterator[Callable[[], Awaitable[Finding]]]:
    """A function that asks once, with that time limit and these authorities. It raises Refused."""
    limits = limits.model_copy(update={"request_timeout": seconds})
    client = V2Grpc(
        model, server_of(model), await open_connections(limits), limits, roots=roots, certificate=certificate
    )
    try:
        yield partial(_probe, client)
    finally:
        await client.close()


async def _probe(client: V2Grpc) -> Finding:
    try:
        is_ready = await client.is_ready()
    except (Fault, InferenceError) as error:
        return _finding_of(error)
    except ValueError as error:
        return Finding(is_ready=False, seen=f"invalid response: {error}")
    return Finding(is_ready=is_ready, seen="the model is ready" if is_ready else "the model is not ready")


def _finding_of(error: Fault | InferenceError) -> Finding:
    failed = error.error if isinstance(error, Fault) else error
    if isinstance(error.__cause__, AddressRefused):
        raise Refused(str(error.__cause__), kind=FaultKind.FAILED, was_sent=False) from error
    cause = failed.__cause__
    is_reachable = isinstance(cause, grpc.aio.AioRpcError) and cause.code() in REACHABLE
    return Finding(is_ready=is_reachable, seen=str(failed))

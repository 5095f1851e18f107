"""Starts, follows and controls runs from a Python program. Needs the extra `inferrun[client]`.

    with Client() as client:
        run = client.submit("iris", {"day": "2026-11-21"})
        result = client.wait(run)

It uses the cluster that kubectl would use. `AsyncClient` has the same methods for programs with an
event loop. Programs that reach only Temporal use its own client instead.
"""

from typing import TYPE_CHECKING

from inferrun.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from inferrun.client.async_client import AsyncClient, BackfillOptions, RunOptions
    from inferrun.client.errors import (
        AccessDenied,
        ClientError,
        ConfigNotFound,
        InvalidRequest,
        NotConnected,
        RequestMismatch,
        RunEnded,
        RunFailed,
        RunNotFound,
        ServerUnreachable,
        WaitTimedOut,
    )
    from inferrun.client.run_logs import LogLine
    from inferrun.client.sync_client import Client

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "BackfillOptions",
    "Client",
    "ClientError",
    "ConfigNotFound",
    "InvalidRequest",
    "LogLine",
    "NotConnected",
    "RequestMismatch",
    "RunEnded",
    "RunFailed",
    "RunNotFound",
    "RunOptions",
    "ServerUnreachable",
    "WaitTimedOut",
]

_MODULES = ("errors", "run_logs", "async_client", "sync_client")
"""Where the names are. Those that need no connection are used without the packages that have it."""


__getattr__ = lazy_exports(__name__, __all__, modules=_MODULES)

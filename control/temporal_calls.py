"""What every request to Temporal needs: a time limit, errors that are part of normal operation, values of other clients.

The client retries a request to an unreachable server for about ten seconds, and waits for a server that accepts the
connection but does not answer. A limit around the whole call covers both.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

CALL_SECONDS: Final = 5.0
"""A healthy server answers in milliseconds; after this time the caller retries later and its lane serves another run."""

SCHEDULE_CALL_SECONDS: Final = 15.0
"""The same for schedules: the server answers from a workflow of its own, which takes seconds on a busy server."""


def call_deadline(*, seconds: float = CALL_SECONDS) -> asyncio.Timeout:
    """A context manager that raises TimeoutError if the request inside takes longer."""
    return asyncio.timeout(seconds)


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Suppress NOT_FOUND: the workflow or schedule does not exist, or has already closed. Other errors propagate."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def decode_foreign(client: Client, payloads: Sequence[Payload]) -> list[object] | None:
    """Values that any client may have written, in any encoding; None if they cannot be decoded, for whatever reason."""
    try:
        return list(await client.data_converter.decode(payloads))
    except Exception:  # noqa: BLE001 -- what one program has written must not stop what is done for another one
        return None

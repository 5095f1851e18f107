"""The time limit of a request to Temporal.

The client retries a request to an unreachable server for about ten seconds, and waits for a server that accepts the
connection but does not answer. A limit around the whole call covers both.
"""

import asyncio
from typing import Final

CALL_SECONDS: Final = 5.0
"""A healthy server answers in milliseconds; after this time the caller retries later and its lane serves another run."""


SCHEDULE_CALL_SECONDS: Final = 15.0
"""The same for schedules: the server answers from a workflow of its own, which takes seconds on a busy server."""


def call_deadline(*, seconds: float = CALL_SECONDS) -> asyncio.Timeout:
    """A context manager that raises TimeoutError if the request inside takes longer."""
    return asyncio.timeout(seconds)

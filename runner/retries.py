"""Decides which failed requests are retried and after how long. Pure, except for the loop at the end.

Overload (429, 503), an unavailable backend (502, 504), a refused or lost connection and a timeout are transient if the request
may be sent twice. Waits double from half a second to ten seconds, with jitter so that many Pods do not retry at the same time.
`Retry-After` is honoured up to a minute. All tries of one request share a time budget.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
UNPROCESSED_STATUSES = frozenset({429, 503})
"""Statuses after which a store may be sent the same predictions again, because it did not process the request."""

T = TypeVar("T")

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 10.0
_LONGEST_RETRY_AFTER = 60.0


class TransientError(Exception):
    """A failure that a retry may overcome; `error` is raised if it does not."""

    def __init__(self, error: Exception, *, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


def wait_before(retry: int, *, retry_after: float | None, jitter: float) -> float:
    """Return the seconds to wait before a retry, numbered from 1; `jitter` is between 0 and 1."""
    if retry_after is not None:
        return min(retry_after, _LONGEST_RETRY_AFTER)
    return min(_FIRST_WAIT * 2.0 ** min(retry - 1, 16), _LONGEST_WAIT) * (0.5 + jitter / 2)


def seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None for its date form and for invalid values."""
    text = (retry_after or "").strip()
    return float(text) if text.isdecimal() else None


async def with_retries(attempt: Callable[[], Awaitable[T]], *, budget: float) -> T:
    """Call `attempt` until it does not raise TransientError, for at most `budget` seconds."""
    deadline = time.monotonic() + budget
    retry = 0
    while True:
        try:
            return await attempt()
        except TransientError as failure:
            retry += 1
            wait = wait_before(retry, retry_after=failure.retry_after, jitter=random.random())  # noqa: S311  not security
            if time.monotonic() + wait > deadline:
                raise failure.error from failure
        await asyncio.sleep(wait)

"""Which failures of a request pass by themselves, and how long to wait for that. Pure but for the one loop at the end.

Overload (429, 503), a gateway without its backend (502, 504), a connection refused or lost, and a timeout are transient for a
request that may be sent twice. Waits double from half a second to ten, with jitter so that many Pods do not come back at
once; `Retry-After` is honoured up to a minute. All tries of one request share a budget of seconds.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
UNTOUCHED_STATUSES = frozenset({429, 503})
"""Statuses that say the request was not even begun, so that a store may be sent the same again."""

T = TypeVar("T")

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 10.0
_LONGEST_RETRY_AFTER = 60.0


class Transient(Exception):
    """A failure that may pass; `error` is what to raise when it does not."""

    def __init__(self, error: Exception, *, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


def wait_before(retry: int, *, retry_after: float | None, jitter: float) -> float:
    """Seconds to wait before a retry, counted from 1; `jitter` is from 0 to 1."""
    if retry_after is not None:
        return min(retry_after, _LONGEST_RETRY_AFTER)
    return min(_FIRST_WAIT * 2.0 ** min(retry - 1, 16), _LONGEST_WAIT) * (0.5 + jitter / 2)


def seconds_of(retry_after: str | None) -> float | None:
    """The seconds in a `Retry-After` header; its date form and nonsense are passed over."""
    text = (retry_after or "").strip()
    return float(text) if text.isdecimal() else None


async def with_retries(attempt: Callable[[], Awaitable[T]], *, budget: float) -> T:
    """The result of `attempt`, tried again while it raises Transient and the budget of seconds lasts."""
    gives_up = time.monotonic() + budget
    retry = 0
    while True:
        try:
            return await attempt()
        except Transient as failure:
            retry += 1
            wait = wait_before(retry, retry_after=failure.retry_after, jitter=random.random())  # noqa: S311  no secret
            if time.monotonic() + wait > gives_up:
                raise failure.error from failure
        await asyncio.sleep(wait)

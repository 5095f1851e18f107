"""Decides which failed requests are retried, and after how long. Pure, except for the loop at the end.

Overload (429, 503), an unavailable backend (502, 504), a refused or lost connection and a timeout are transient if the request
may be sent twice. After a lost connection the first retry is immediate. Otherwise waits double from the first wait to ten
seconds, with jitter so that many Pods do not retry at the same time. `Retry-After` is honoured up to a minute. All tries of one
request share a time budget.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from inferrun.plugins import TransientError

TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
UNPROCESSED_STATUSES = frozenset({429, 503})
"""Statuses after which a store may be sent the same predictions again, because it did not process the request."""

FIRST_WAIT = 0.5
"""Seconds before the first retry of a request whose usual duration is unknown."""

_SHORTEST_FIRST_WAIT = 0.02
_LONGEST_WAIT = 10.0
_LONGEST_RETRY_AFTER = 60.0

T = TypeVar("T")


class Retries:
    """The retries of one request."""

    def __init__(self, *, budget: float, started: float) -> None:
        self._deadline = started + budget
        self._retry = 0

    def wait_after(self, failure: TransientError, *, now: float, first_wait: float, jitter: float) -> float | None:
        """Return the seconds until the next retry, or None if the budget is spent; `jitter` is between 0 and 1."""
        self._retry += 1
        if self._retry == 1 and failure.is_connection_lost:
            wait = 0.0
        elif failure.retry_after is not None:
            wait = min(failure.retry_after, _LONGEST_RETRY_AFTER)
        else:
            wait = backoff(self._retry, first_wait=first_wait, jitter=jitter)
        return wait if now + wait <= self._deadline else None


def backoff(retry: int, *, first_wait: float, jitter: float) -> float:
    """Return the seconds to wait before a retry, numbered from 1: doubling, and reduced by up to half at random."""
    return min(first_wait * 2.0 ** min(retry - 1, 16), _LONGEST_WAIT) * (0.5 + jitter / 2)


def first_wait_for(duration: float | None) -> float:
    """Return the first wait for requests that usually take `duration` seconds: twice as long, within limits."""
    if duration is None:
        return FIRST_WAIT
    return min(max(2 * duration, _SHORTEST_FIRST_WAIT), FIRST_WAIT)


def seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None for its date form and for invalid values."""
    text = (retry_after or "").strip()
    return float(text) if text.isdecimal() else None


async def with_retries(
    attempt: Callable[[], Awaitable[T]], *, budget: float, first_wait: Callable[[], float] = lambda: FIRST_WAIT
) -> T:
    """Call `attempt` until it does not raise TransientError, or raise the underlying error when the budget is spent."""
    loop = asyncio.get_running_loop()
    retries = Retries(budget=budget, started=loop.time())
    while True:
        try:
            return await attempt()
        except TransientError as failure:
            wait = retries.wait_after(
                failure,
                now=loop.time(),
                first_wait=first_wait(),
                jitter=random.random(),  # noqa: S311  not for security
            )
            if wait is None:
                raise failure.error from failure
        await asyncio.sleep(wait)

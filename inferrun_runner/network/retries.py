"""Decides which failed requests are retried, and after how long. Pure, except for the jitter and
the loops at the end.

Overload (429, 503), an unavailable backend (502, 504), a refused or lost connection and a timeout
are transient if the request may be sent twice. After a lost connection the first retry is
immediate. Otherwise waits double from the first wait to ten seconds, with jitter so that many Pods
do not retry at the same time. `Retry-After` is a lower bound, to which the wait is added.

The budget limits the time since the request first failed, not the time since it was first sent: a
request that times out after five minutes is still retried. The last retry is at the end of the
budget. `Retry-After` may exceed the budget, but not ten minutes: longer outages are left to the
run's next attempt, which does not occupy a Pod while it waits.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from inferrun.backoff import Backoff
from inferrun.plugins import Fault, FaultKind


@dataclass(frozen=True, kw_only=True)
class RetryTiming:
    """Seconds."""

    shortest: float = 0.02
    """The least wait before the first retry, of requests that usually take less than half of it."""

    first: float = 0.5
    """The wait before the first retry of a request whose usual duration is unknown, and the most of
    others."""

    longest: float = 10.0
    """The longest wait before a retry; it is doubled up to this."""

    longest_asked: float = 600.0
    """The longest wait that a server may ask for."""

    def __post_init__(self) -> None:
        if not self.shortest < self.first < self.longest < self.longest_asked:
            raise ValueError(f"needs shortest < first < longest < longest_asked, not {self}")


WAITS = RetryTiming()

T = TypeVar("T")


class Retries:
    """The retries of one request."""

    def __init__(self, *, budget: float, until: Callable[[], float] = lambda: 0.0) -> None:
        """`budget` is in seconds; `until` is asked after each failure, and is a time until which
        there are retries anyway."""
        self._budget = budget
        self._until = until
        self._failing_since: float | None = None
        self._retry = 0

    def wait_after(
        self, failure: Fault, *, now: float, first_wait: float, jitter: float | None = None
    ) -> float | None:
        """Return the seconds until the next retry, or None if the budget is spent; `jitter` by
        default random, is from 0 to 1."""
        if jitter is None:
            jitter = random.random()  # noqa: S311  not for security
        if self._failing_since is None:
            self._failing_since = now
        left = max(self._budget - (now - self._failing_since), self._until() - now)
        self._retry += 1
        wait = backoff(self._retry, first_wait=first_wait, jitter=jitter)
        if left <= 0:
            return None
        if failure.retry_after is not None:
            return (
                failure.retry_after + wait if failure.retry_after <= WAITS.longest_asked else None
            )
        if self._retry == 1 and failure.kind is FaultKind.LOST:
            return 0.0
        return min(wait, left)


def backoff(retry: int, *, first_wait: float, jitter: float) -> float:
    """Return the seconds to wait before a retry, numbered from 1: doubling, and reduced by up to
    half at random."""
    return Backoff(first_wait, WAITS.longest).after(retry) * (0.5 + jitter / 2)


def first_wait_for(duration: float | None) -> float:
    """Return the first wait for requests that usually take `duration` seconds: twice as long,
    within limits."""
    if duration is None:
        return WAITS.first
    return min(max(2 * duration, WAITS.shortest), WAITS.first)


async def with_retries(
    attempt: Callable[[], Awaitable[T]], *, budget: float, first_wait: float = WAITS.first
) -> T:
    """Call `attempt` until it does not raise a transient Fault, or raise the underlying error when
    the budget is spent."""
    retries = Retries(budget=budget)
    while True:
        try:
            return await attempt()
        except Fault as failure:
            wait = _wait_after(failure, retries, first_wait)
        await asyncio.sleep(wait)


def with_blocking_retries(attempt: Callable[[], T], *, budget: float) -> T:
    """Call an `attempt` that blocks, as `with_retries` does one that does not."""
    retries = Retries(budget=budget)
    while True:
        try:
            return attempt()
        except Fault as failure:
            wait = _wait_after(failure, retries, WAITS.first)
        time.sleep(wait)


def _wait_after(failure: Fault, retries: Retries, first_wait: float) -> float:
    wait = retries.wait_after(failure, now=time.monotonic(), first_wait=first_wait)
    if wait is None or not failure.is_transient:
        raise failure.error from failure
    return wait

"""From when on reads of a config and a model are new enough for a launch.

A new run needs them as they were when it was first seen, or newer. A run that was woken needs them as the sender has seen them,
which was before this worker first heard of the cause. What was read since then serves all such launches: of a thousand runs
that wait for one model, not each has to read it. Pure.
"""

from collections import OrderedDict
from typing import Final

from workflows.messages import Woken

LIMIT: Final = 1000
"""Causes that are remembered."""

SHARED_SECONDS: Final = 15.0
"""What was read longer ago is read again: it may have changed without this worker hearing of it."""


class Wakes:
    """One instance serves all launches of a worker. Times are those of the event loop's clock."""

    def __init__(self) -> None:
        self._heard: OrderedDict[str, float] = OrderedDict()

    def since(self, woken: Woken | None, *, seen_at: float | None, now: float) -> float:
        """From when on reads serve a launch that begins now: now, unless the run is new and was first `seen_at` that time, or the
        cause that has woken it is known.
        """
        if seen_at is None:
            seen_at = self._heard_at(woken.cause, now=now) if woken is not None and woken.cause else now
        return max(seen_at, now - SHARED_SECONDS)

    def _heard_at(self, cause: str, *, now: float) -> float:
        first = self._heard.setdefault(cause, now)
        if len(self._heard) > LIMIT:
            self._heard.popitem(last=False)
        return first

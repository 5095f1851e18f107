"""Says how long a member of a group (a namespace, say) has to wait until it may begin: a few at once, then so many per second.

For crowds that no queue of ours holds back, because Temporal starts them all at the same moment, such as timers. Pure. Each
caller begins at the time of its answer, and the next one gets a later one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

MAX_GROUPS = 1000
"""Groups that are remembered before those that have nothing to wait for are forgotten."""

TurnOf = Callable[[str], float]
"""Seconds until the next run of a namespace may begin. Each call takes one turn."""


@dataclass
class Pace:
    """Groups do not wait for each other."""

    burst: int
    per_second: float
    _free: dict[str, float] = field(default_factory=dict)
    """The time from which each group has nothing to wait for."""

    def wait_seconds(self, group: str, *, now: float) -> float:
        """Seconds until the next member of the group may begin; `now` is a monotonic time."""
        if len(self._free) >= MAX_GROUPS:
            self._free = {name: free for name, free in self._free.items() if free > now}
        free = max(now, self._free.get(group, now))
        self._free[group] = free + 1 / self.per_second
        return max(0.0, free - now - (self.burst - 1) / self.per_second)

"""Estimates how long a set of tasks will still take. Pure: the caller supplies the clock.

Each task has an expected cost in core-seconds, measured on a quiet 2-core machine. The first
estimate comes from these costs alone; as work is completed, the observed rate replaces the expected
one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

EXPECTED_SHARE = 0.85
"""Share of the machine's cores that parallel tasks keep busy (measured: 1.7 of 2)."""

TRUST_SECONDS = 90.0
"""How long the expected rate counts as much as what has been observed."""


@dataclass
class Estimate:
    """Expected cost by task, in core-seconds, and the fraction of each that is done."""

    costs: Mapping[str, float]
    cores: int
    _done: dict[str, float] = field(default_factory=dict)

    def update(self, task: str, *, fraction: float) -> None:
        """Record progress; a fraction never decreases, and tasks without an expected cost are
        ignored."""
        if task in self.costs:
            self._done[task] = max(self._done.get(task, 0.0), min(fraction, 1.0))

    @property
    def total(self) -> float:
        return sum(self.costs.values())

    @property
    def done(self) -> float:
        return sum(self.costs[task] * fraction for task, fraction in self._done.items())

    def seconds_left(self, *, elapsed: float) -> float:
        return seconds_left(total=self.total, done=self.done, elapsed=elapsed, cores=self.cores)


def seconds_left(*, total: float, done: float, elapsed: float, cores: int) -> float:
    """Remaining time at a rate that moves from the expected to the observed one."""
    expected_rate = max(cores, 1) * EXPECTED_SHARE
    rate = (expected_rate * TRUST_SECONDS + done) / (TRUST_SECONDS + elapsed)
    return max(total - done, 0.0) / rate


def format_left(seconds: float) -> str:
    """`about 5 min left`, `about 40 s left`, `a few seconds left`."""
    if seconds > 90:
        return f"about {round(seconds / 60)} min left"
    if seconds > 10:
        return f"about {round(seconds / 10) * 10} s left"
    return "a few seconds left"

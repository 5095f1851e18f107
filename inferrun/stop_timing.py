"""How long the steps of a stop may take, from the signal to the end of a container. Pure."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class StopTiming:
    """Seconds."""

    grace: int = 10
    """The time between SIGTERM and SIGKILL, for a run that is cancelled, suspended or deleted."""

    deadline_grace: int = 5
    """The grace past a run's deadline: less than a run gets that was cancelled, and more than the
    runner takes to know the outcome."""

    commit: float = 3.0
    """How long a stopped runner waits for a commit in progress."""

    last_check: float = 1.0
    """How long a stopped or failed runner waits for the store to say whether the run is committed.
    """

    margin: int = 15
    """The time after the grace, within which the kubelet reports that stopped Pods are gone."""

    forced: int = 10
    """How long to wait for Pods after their deletion was forced. Then they count as fenced off: a
    kubelet that has lost its API server, or a finalizer, keeps the objects, but the API server
    accepts nothing more from them."""

    def __post_init__(self) -> None:
        if not self.commit + self.last_check < self.deadline_grace < self.grace:
            raise ValueError(f"needs commit + last_check < deadline_grace < grace, not {self}")


STOP: Final = StopTiming()

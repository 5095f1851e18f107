"""How far a run has got: the one value that its workflow keeps, its messages carry and its status
shows. Pure."""

from collections.abc import Iterable
from typing import Any, Final, Self

from pydantic import BaseModel

from inferrun.resources import Attempt, InferenceRunStatus
from inferrun.timestamps import rfc3339

_SHOWN: Final = {
    "attempt": "attempt",
    "attempts": "attempts",
    "uncounted": "uncounted_attempts",
    "committed": "committed_records",
}
"""Names in the status of the fields that it has as they are. It leaves out what is 0 or empty."""


class RunProgress(BaseModel, frozen=True):
    """How far a run has got. In messages its fields are at the top level, where recorded histories
    have them."""

    launch: int = 1
    """Number of the current launch; every Job is one."""

    attempt: int = 1
    """Number of the current attempt."""

    attempts: tuple[Attempt, ...] = ()
    """The latest launches that ended, oldest first."""

    seconds_used: float = 0
    """Seconds of the run's clock that earlier launches used."""

    first_started_at: str | None = None
    """When the run's first container started."""

    waits: int = 0
    """Latest launches in a row that ended while their Pod still waited."""

    uncounted: int = 0
    """Attempts that do not count, because a later one committed records."""

    committed: int = 0
    """Number of committed records that a runner last reported."""

    @property
    def counted_attempts(self) -> int:
        """The number of the current attempt, as counted against backoffLimit."""
        return self.attempt - self.uncounted

    @property
    def progress(self) -> "RunProgress":
        """These fields alone, without those of the message."""
        return RunProgress(**{name: getattr(self, name) for name in RunProgress.model_fields})

    @property
    def shown(self) -> dict[str, Any]:  # Any: fields of InferenceRunStatus, validated by it
        """The fields of the status that show it; None for those that it leaves as they are.

        The seconds are those of the launches that have ended: Pods that the current one has
        replaced are listed with theirs.
        """
        ended_seconds = self.seconds_used - _seconds_since(self.launch, self.attempts)
        return {
            **{there: getattr(self, here) or None for here, there in _SHOWN.items()},
            "ended_launches": self.launch - 1 or None,
            "seconds_used": max(0, round(ended_seconds)) if self.attempts else None,
        }

    @classmethod
    def shown_in(cls, status: InferenceRunStatus) -> Self:
        """The progress at the launch after those that have ended, according to the status."""
        past, counted = status.attempts, status.seconds_used
        ended = status.ended_launches or max(
            (one.launch for one in past if not one.replaced), default=0
        )
        seconds = (counted or 0) + _seconds_since(1 if counted is None else ended + 1, past)
        known = {here: found for here, there in _SHOWN.items() if (found := getattr(status, there))}
        return cls(
            **known,
            launch=ended + 1,
            seconds_used=seconds,
            first_started_at=rfc3339(status.start_time) if status.start_time is not None else None,
        )


def _seconds_since(launch: int, listed: Iterable[Attempt]) -> float:
    """The seconds that the launches and Pods in the list used, from that launch on."""
    return sum(
        max(0.0, (one.completion_time - one.start_time).total_seconds())
        for one in listed
        if one.launch >= launch and one.completion_time is not None and one.start_time is not None
    )

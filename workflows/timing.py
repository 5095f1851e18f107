"""Times of workflows and their activities that must be longer or shorter than one another. Pure."""

from dataclasses import dataclass
from typing import Final

from inferrun.backoff import Backoff


@dataclass(frozen=True, kw_only=True)
class RecheckTiming:
    """Seconds after which a workflow looks for what a signal normally tells it first."""

    cancelled: int = 10
    """The interval after a cancellation was requested: a run usually ends within its grace
    period."""

    soon: int = 15
    """The first look for what the shim does not watch, and at the runs of a back-fill that cannot
    start another one or is cancelled."""

    usual: int = 600
    """The first look for what the shim watches. The interval doubles: an end whose signal was lost
    is found before the wait has become twice as long, and a wait of four weeks costs about 120
    checks and 700 history events. A check of a submission costs two billed actions (a timer and an
    activity): 16 on the first day and 8 on each further one, where checks every ten minutes would
    cost 288."""

    longest: int = 6 * 3600
    """The longest interval, also that of a suspended run: only an edit resumes it, and edits are
    signalled until they are acknowledged."""

    def __post_init__(self) -> None:
        if not self.cancelled <= self.soon < self.usual < self.longest:
            raise ValueError(f"needs cancelled <= soon < usual < longest, not {self}")

    @property
    def unwatched(self) -> Backoff:
        """The intervals while a run waits for something that the shim does not watch."""
        return Backoff(self.soon, self.usual)

    @property
    def watched(self) -> Backoff:
        """The intervals while a run waits for something that the shim watches."""
        return Backoff(self.usual, self.longest)


@dataclass(frozen=True, kw_only=True)
class ActivityTiming:
    """Seconds of activities, and of what they wait for."""

    log: float = 2.0
    """How long a verdict waits for the log of its Pod: the kubelet may be dead."""

    vanishing: float = 2.0
    """How long to look for the objects of Pods whose containers have ended."""

    vanishing_interval: float = 0.2
    """How often to look for them."""

    local: int = 5
    """A local activity that takes longer is given up and executed as a regular one: until it ends,
    it occupies the task of its workflow."""

    task: int = 10
    """Temporal's limit of a workflow task."""

    requests: int = 15
    """A handful of requests to the API server, each of which is answered within milliseconds or
    fails. If an overloaded server wants one again later than that, the activity is tried again."""

    short: int = 60
    """The limit of all other activities."""

    def __post_init__(self) -> None:
        waits = max(self.log, self.vanishing)
        if (
            not self.vanishing_interval
            < waits
            < self.local
            < self.task
            < self.requests
            < self.short
        ):
            raise ValueError(f"needs waits < local < task < requests < short, not {self}")


RECHECKS: Final = RecheckTiming()
ACTIVITIES: Final = ActivityTiming()

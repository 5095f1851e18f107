"""How Temporal runs each activity: its name, its timeouts, its retries. One table, each row with its reason.

Names are fixed strings: a history recorded today must find its activity tomorrow.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import RetryPolicy


@dataclass(frozen=True)
class ActivityOptions:
    """An activity: its name and how Temporal is to run it."""

    name: str
    start_to_close: timedelta
    retry: RetryPolicy
    heartbeat: timedelta | None = None
    follower: bool = False
    """Whether it runs on the followers' own task queue."""


def follower_queue(task_queue: str) -> str:
    """The task queue of the activities that follow Jobs."""
    return f"{task_queue}-follow"


_SHORT = timedelta(seconds=60)
_UNTIL_IT_WORKS = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=30))

LAUNCH = ActivityOptions("LaunchJob", _SHORT, _UNTIL_IT_WORKS)
"""A handful of requests. An API server that is away comes back; what cannot succeed is an answer, not an error."""

FOLLOW = ActivityOptions(
    "FollowJob",
    timedelta(days=3650),
    RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)),
    heartbeat=timedelta(seconds=60),
    follower=True,
)
"""Lasts as long as its Job, which nothing bounds; the heartbeat finds a dead worker within a minute."""

STOP = ActivityOptions("StopJob", timedelta(minutes=10), _UNTIL_IT_WORKS, heartbeat=timedelta(seconds=60))
"""Waits until no Pod is left: the Pod's grace, and a node that is slow."""

PUBLISH = ActivityOptions("PublishStatus", _SHORT, _UNTIL_IT_WORKS)
RECORD = ActivityOptions("RecordOutcome", _SHORT, _UNTIL_IT_WORKS)
"""For ever: an outcome that is not written is lost."""

DELETE_RUN = ActivityOptions("DeleteRun", _SHORT, _UNTIL_IT_WORKS)

SUBMIT = ActivityOptions("SubmitRun", _SHORT, _UNTIL_IT_WORKS)
READ_RUN = ActivityOptions("ReadRun", _SHORT, _UNTIL_IT_WORKS)
CANCEL_RUN = ActivityOptions("CancelRun", _SHORT, _UNTIL_IT_WORKS)
DELETE_SCHEDULE = ActivityOptions("DeleteSchedule", _SHORT, _UNTIL_IT_WORKS)

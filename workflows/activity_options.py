"""How Temporal runs each activity: its name, timeouts and retries, each with its reason, in one table.

Names are fixed strings because histories contain them.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import RetryPolicy


@dataclass(frozen=True)
class ActivityOptions:
    """An activity's name and the options with which it is scheduled."""

    name: str
    start_to_close: timedelta
    retry: RetryPolicy
    heartbeat: timedelta | None = None
    is_follower: bool = False
    """Whether it runs on the followers' own task queue."""


def follower_queue(task_queue: str) -> str:
    """The task queue of the activities that follow Jobs."""
    return f"{task_queue}-follow"


_SHORT = timedelta(seconds=60)
_UNTIL_IT_SUCCEEDS = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=30))
"""Without a maximum number of attempts: an unreachable API server comes back, and what can never succeed is a result."""

LAUNCH = ActivityOptions("LaunchJob", _SHORT, _UNTIL_IT_SUCCEEDS)
"""A handful of requests to the API server."""

FOLLOW = ActivityOptions(
    "FollowJob",
    timedelta(days=3650),
    RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)),
    heartbeat=timedelta(seconds=60),
    is_follower=True,
)
"""Lasts as long as its Job, which has no upper bound; the heartbeat detects a dead worker within a minute."""

STOP = ActivityOptions("StopJob", timedelta(minutes=10), _UNTIL_IT_SUCCEEDS, heartbeat=timedelta(seconds=60))
"""Waits until no Pod is left, which takes the Pods' grace period, and longer on a slow node."""

PUBLISH = ActivityOptions("PublishStatus", _SHORT, _UNTIL_IT_SUCCEEDS)

RECORD = ActivityOptions("RecordOutcome", _SHORT, _UNTIL_IT_SUCCEEDS)
"""Retried forever: an outcome that is not written is lost."""

DELETE_RUN = ActivityOptions("DeleteRun", _SHORT, _UNTIL_IT_SUCCEEDS)

SUBMIT = ActivityOptions("SubmitRun", _SHORT, _UNTIL_IT_SUCCEEDS)
READ_RUN = ActivityOptions("ReadRun", _SHORT, _UNTIL_IT_SUCCEEDS)
CANCEL_RUN = ActivityOptions("CancelRun", _SHORT, _UNTIL_IT_SUCCEEDS)
DELETE_SCHEDULE = ActivityOptions("DeleteSchedule", _SHORT, _UNTIL_IT_SUCCEEDS)

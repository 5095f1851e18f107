"""How Temporal runs each activity: its name, timeouts and retries, each with its reason, in one
table.

Names are fixed strings because histories contain them.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import RetryPolicy

from workflows.timing import ACTIVITIES


@dataclass(frozen=True)
class ActivityOptions:
    """An activity's name and the options with which it is scheduled."""

    name: str
    start_to_close: timedelta
    retry: RetryPolicy
    lane: str = ""
    """Suffix of the task queue on which it runs if it is not executed locally; empty for the
    worker's own."""


def lane_queue(task_queue: str, lane: str) -> str:
    """The task queue of a lane: each kind of step has slots of its own, so that one kind cannot
    hold up the others."""
    return f"{task_queue}-{lane}" if lane else task_queue


LANES = ("launch", "record", "stop")

LOCAL_ATTEMPTS = 2

_REQUESTS, _SHORT = timedelta(seconds=ACTIVITIES.requests), timedelta(seconds=ACTIVITIES.short)

_UNTIL_IT_SUCCEEDS = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=30)
)
"""Without a maximum number of attempts: an unreachable API server comes back, and what can never
succeed is a result."""

LAUNCH = ActivityOptions("LaunchJob", _SHORT, _UNTIL_IT_SUCCEEDS, lane="launch")
INSPECT = ActivityOptions("InspectLaunch", _REQUESTS, _UNTIL_IT_SUCCEEDS, lane="record")

STOP_LAUNCH = ActivityOptions("StopLaunch", _REQUESTS, _UNTIL_IT_SUCCEEDS, lane="stop")
"""Deletes and returns: the end of the Pods is signalled."""

READ_SPEC = ActivityOptions("ReadSpec", _REQUESTS, _UNTIL_IT_SUCCEEDS, lane="record")

VERIFY = ActivityOptions("VerifyOutput", _REQUESTS, _UNTIL_IT_SUCCEEDS, lane="record")
"""Creates a Job or reads its result and returns: the Job's end is signalled."""

PUBLISH = ActivityOptions("PublishStatus", _SHORT, _UNTIL_IT_SUCCEEDS, lane="record")

RECORD = ActivityOptions("RecordOutcome", _SHORT, _UNTIL_IT_SUCCEEDS, lane="record")
"""Retried forever: an outcome that is not written is lost."""

BACKFILL = ActivityOptions("AdvanceBackfill", _SHORT, _UNTIL_IT_SUCCEEDS, lane="launch")
"""Looks at up to a hundred runs and starts as many."""

DELETE_RUN = ActivityOptions("DeleteRun", _SHORT, _UNTIL_IT_SUCCEEDS)

CHECK_ORIGIN = ActivityOptions("CheckOrigin", _REQUESTS, _UNTIL_IT_SUCCEEDS)
SUBMIT = ActivityOptions("SubmitRun", _SHORT, _UNTIL_IT_SUCCEEDS)
READ_RUN = ActivityOptions("ReadRun", _SHORT, _UNTIL_IT_SUCCEEDS)
EDIT_RUN = ActivityOptions("EditRun", _SHORT, _UNTIL_IT_SUCCEEDS)
DELETE_SCHEDULE = ActivityOptions("DeleteSchedule", _SHORT, _UNTIL_IT_SUCCEEDS)

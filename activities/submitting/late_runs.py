"""Whether the run that a schedule was due to start may still be created. Pure.

The question is asked at the moment of creation, because hours may pass between Temporal's decision to start a run and
the worker that creates it, and the schedule may have been suspended or edited since. Temporal may also have forgotten a run that
is in progress: its schedule or its database was deleted, or the workflow that submitted the run was terminated.
"""

from collections.abc import Sequence
from datetime import datetime

from inferrun.resources import ConcurrencyPolicy, InferenceRun
from inferrun.resources.cron import next_time
from inferrun.resources.run import STARTING_DEADLINE_SECONDS
from inferrun.timestamps import rfc3339

DEFAULT_TIME_ZONE = "Etc/UTC"


def missed_because(
    schedule: InferenceRun, *, nominal_time: datetime, now: datetime, others: Sequence[InferenceRun] = ()
) -> str | None:
    """Why the run for a nominal time is not created; None if it may be. `others` are the schedule's runs in progress.

    With `Allow`, all times that became due while nothing could be created would lead to runs at the same moment; as
    with a CronJob, only the latest of them does. The other policies have at most one run in progress.
    """
    spec, due = schedule.spec, rfc3339(nominal_time)
    late = (now - nominal_time).total_seconds()
    given = spec.starting_deadline_seconds
    deadline, jitter = STARTING_DEADLINE_SECONDS if given is None else given, spec.jitter_seconds or 0
    if spec.suspend:
        return f"the run due at {due} was not created: the schedule is suspended"
    if late > deadline + jitter:
        text = f"it could be created {late:.0f} s later, startingDeadlineSeconds is {deadline}"
        return f"the run due at {due} was not created: {text}"
    if others and spec.concurrency_policy in (None, ConcurrencyPolicy.FORBID):
        text = f"{others[0].metadata.name} is still in progress (concurrencyPolicy: Forbid)"
        return f"the run due at {due} was not created: {text}"
    if spec.concurrency_policy is ConcurrencyPolicy.ALLOW:
        later = _later_time(schedule, nominal_time)
        if later <= now:
            return f"the run due at {due} was not created: the run due at {rfc3339(later)} is created instead"
    return None


def _later_time(schedule: InferenceRun, nominal_time: datetime) -> datetime:
    time_zone = schedule.spec.time_zone or DEFAULT_TIME_ZONE
    return next_time(schedule.spec.schedule or "", time_zone=time_zone, after=nominal_time)

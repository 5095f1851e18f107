"""Schedules that are kept by a process whose clock is wrong."""

from datetime import datetime, timedelta

import pytest
import time_machine

from control.cluster.events import EventRecorder
from inferrun.kube.objects import Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.timestamps import rfc3339
from operator_shim.run_plan import ACCEPTED_SCHEDULE
from operator_shim.schedule_spec import RunSchedule
from operator_shim.schedules import Schedules
from operator_shim.temporal_schedules import (
    KeptSchedule,
    TemporalSchedules,
    TimeSubmission,
    TimeSubmissionState,
)
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.objects import NOW, RUN, run
from tests.unit.operator_shim.shown_runs import ShownRuns


class StoredRun(StoredObjects):
    """Accepts every status of the schedule."""

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        await super().patch(resource, namespace, name, body, sub=sub)
        return {"metadata": RUN.model_dump(), "spec": {"configRef": {"name": "iris"}}}


class Unfired(TemporalSchedules):
    """Temporal has a schedule that has not fired, and notes the times that are submitted."""

    def __init__(self) -> None:
        self.submitted: list[datetime] = []

    async def ensure(self, wanted: RunSchedule, *, config: str) -> KeptSchedule:
        return KeptSchedule((), None)

    async def submission(self, schedule: str, due: datetime) -> TimeSubmission:
        return TimeSubmission(TimeSubmissionState.ABSENT)

    async def submit(self, schedule: str, due: datetime, *, until: datetime) -> None:
        self.submitted.append(due)


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(hours=2), timedelta(hours=-2)])
async def test_a_time_is_late_by_the_clock_of_the_cluster(ahead: timedelta) -> None:
    api, temporal = StoredRun(), Unfired()
    created = NOW.replace(second=0, microsecond=0) - timedelta(minutes=2)
    due = created + timedelta(minutes=1)
    schedule = run(
        schedule=f"{due.minute} {due.hour} * * *",
        startingDeadlineSeconds=3600,
        metadata={"creationTimestamp": rfc3339(created)},
    )
    schedules = Schedules(
        RunStore(api),
        temporal,
        watch=ShownRuns(),
        events=EventRecorder(api, reporter="tests", component="shim"),
    )
    with time_machine.travel(NOW + ahead):
        await schedules.keep(schedule, ACCEPTED_SCHEDULE)
    [written] = api.patched
    assert written["status"]["times"]["until"] == rfc3339(created)
    assert temporal.submitted == [due]

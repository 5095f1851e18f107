"""An API server with one schedule, and the activity that submits a run of it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import cast

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.schedule_actions import ScheduleActions
from activities.submission_history import SubmissionHistory
from activities.submit_run import RunSubmitter
from control.cluster.events import EventRecorder
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.submission import parse_submission
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import RUN
from workflows.messages import SubmissionStatus, SubmitInput


class OneSchedule(StoredObjects):
    """Has a schedule, and the run of it that was created."""

    def __init__(self, **spec: object) -> None:
        stored = live_run(job_uid=None)
        stored["spec"].update(schedule="0 8 * * *", **spec)
        super().__init__(inferenceruns=stored)
        self.made: Object | None = None

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        if name == RUN.name:
            return await super().get(resource, namespace, name)
        if self.made is None:
            raise NotFound("there is none")
        return self.made

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        self.made = {
            **body,
            "metadata": {**body["metadata"], "namespace": namespace, "uid": "uid-of-the-run"},
        }
        return self.made


async def never(run: RunRef) -> None:
    """Cancel nothing."""
    raise AssertionError(f"{run} must not be cancelled")


class NoHistory(SubmissionHistory):
    """Temporal has executed no run that is gone, or this one."""

    def __init__(self, deleted: SubmissionStatus | None = None) -> None:
        super().__init__(cast("Client", None), task_queue="any", installation="any")
        self._deleted = deleted

    async def find(self, request: SubmitInput) -> SubmissionStatus | None:
        return None

    async def find_deleted(
        self, namespace: str, name: str, *, since: datetime
    ) -> SubmissionStatus | None:
        return self._deleted


class Actions(ScheduleActions):
    """Temporal's list of what schedules have started."""

    def __init__(self, *, is_known: bool) -> None:
        self._is_known = is_known

    async def has_started(self, schedule: RunRef, workflow_id: str) -> bool:
        return self._is_known


async def submit(
    api: StoredObjects,
    *,
    due: datetime,
    started: datetime,
    cancel: Callable[[RunRef], Awaitable[None]] = never,
    history: SubmissionHistory | None = None,
    tries: int = 1,
    is_triggered: bool = True,
    **submission: object,
) -> SubmissionStatus:
    """Submit the run that was due then, or one for a program, if its `submission` is given.
    `started`: when the activity started, by Temporal's clock; `tries`: the number of this try of
    it; `is_triggered`: whether Temporal lists the workflow among those that the schedule started.
    """
    submitter = RunSubmitter(
        api,
        RunStore(api),
        events=EventRecorder(api, reporter="tests"),
        history=history or NoHistory(),
        actions=Actions(is_known=is_triggered),
        defaults=Defaults,
        cancel=cancel,
    )
    what = submission or {"parent": {"name": RUN.name, "uid": RUN.uid}}
    given = SubmitInput(
        submission=parse_submission({"namespace": RUN.namespace, **what}),
        workflow_id="tests",
        nominal_time=due.isoformat(),
    )
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, started_time=started, attempt=tries)
    status: SubmissionStatus = await environment.run(submitter.submit_run, given)
    return status

"""What a fire of a schedule does: the activity that creates its run, and the runs that it has
created."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.submission_history import SubmissionHistory
from activities.submit_run import RunSubmitter
from activities.submitted_runs import SubmittedRuns
from control.cluster.events import EventRecorder
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.submission import parse_submission
from tests.unit.activities.one_schedule import Actions
from tests.unit.launches import INSTALLATION
from workflows.messages import SubmissionStatus, SubmitInput


def submitter_of(
    api: KubeClient, client: Client, *, cancel: Callable[[RunRef], Awaitable[None]] | None = None
) -> RunSubmitter:
    """The worker's activity; runs that are replaced are cancelled with `cancel`, as the worker does
    it by default."""
    runs = RunStore(api)
    return RunSubmitter(
        api,
        runs,
        events=EventRecorder(api, reporter="tests"),
        history=SubmissionHistory(client, task_queue="any", installation=INSTALLATION.id),
        actions=Actions(is_known=True),
        defaults=Defaults,
        cancel=cancel or SubmittedRuns(api, runs, temporal=client).cancel,
    )


async def submit(
    submitter: RunSubmitter, schedule: InferenceRun, due: datetime
) -> SubmissionStatus:
    """The schedule fires now, for that time."""
    parent = {"name": schedule.metadata.name, "uid": schedule.metadata.uid}
    request = SubmitInput(
        submission=parse_submission({"namespace": schedule.metadata.namespace, "parent": parent}),
        workflow_id="tests",
        nominal_time=due.isoformat(),
    )
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, started_time=datetime.now(UTC))
    return await environment.run(submitter.submit_run, request)


async def children(api: KubeClient, schedule: InferenceRun) -> list[Object]:
    """The runs of the schedule."""
    selector = f"{wellknown.LABEL_SCHEDULE_UID}={schedule.metadata.uid}"
    return list(
        (await api.list(RUNS, schedule.metadata.namespace, labelSelector=selector))["items"]
    )


async def event_reasons(api: KubeClient, namespace: str) -> list[str]:
    """The reasons of all Events."""
    return [item["reason"] for item in (await api.list(EVENTS, namespace))["items"]]

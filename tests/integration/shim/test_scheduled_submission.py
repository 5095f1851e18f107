"""The run of a schedule is created, retried or missed, at the moment of its creation."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.objects.events import EventRecorder
from activities.submitting.submission_history import SubmissionHistory
from activities.submitting.submit_run import RunSubmitter
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden
from inferrun.kube.objects import EVENTS, QUOTAS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.names import scheduled_run_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.submission import parse_submission
from inferrun.timestamps import rfc3339
from tests.integration.shim.conftest import Until
from tests.integration.shim.runs import create, edit
from workflows.messages import SubmissionState, SubmissionStatus, SubmitInput

pytestmark = pytest.mark.thorough


async def never(run: RunRef) -> None:
    raise AssertionError(f"{run} must not be cancelled")


@pytest.fixture
def submitter(api: KubeClient, temporal: Client) -> RunSubmitter:
    events = EventRecorder(api, reporter="tests")
    return RunSubmitter(
        api,
        RunStore(api),
        events=events,
        history=SubmissionHistory(temporal, task_queue="any"),
        defaults=Defaults,
        cancel=never,
    )


async def submit(
    submitter: RunSubmitter, schedule: InferenceRun, *, seconds_late: float = 0, due: datetime | None = None
) -> SubmissionStatus:
    due = due or datetime.now(UTC) - timedelta(seconds=seconds_late)
    parent = {"name": schedule.metadata.name, "uid": schedule.metadata.uid}
    request = SubmitInput(
        submission=parse_submission({"namespace": schedule.metadata.namespace, "parent": parent}),
        workflow_id="tests",
        nominal_time=due.isoformat(),
    )
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, started_time=datetime.now(UTC))
    return await environment.run(submitter.submit_run, request)


async def children(api: KubeClient, schedule: InferenceRun) -> int:
    selector = f"inferrun.dev/schedule-uid={schedule.metadata.uid}"
    return len((await api.list(RUNS, schedule.metadata.namespace, labelSelector=selector))["items"])


async def event_reasons(api: KubeClient, namespace: str) -> list[str]:
    return [item["reason"] for item in (await api.list(EVENTS, namespace))["items"]]


async def test_a_run_that_is_hours_late_is_missed(api: KubeClient, namespace: str, submitter: RunSubmitter) -> None:
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    status = await submit(submitter, schedule, seconds_late=3 * 3600)
    assert (status.standing, status.reason) == (SubmissionState.REFUSED, Reason.MISSED)
    assert await children(api, schedule) == 0
    assert await event_reasons(api, namespace) == ["Missed"]


async def test_a_run_of_a_schedule_that_was_suspended_since_is_missed(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    await edit(api, schedule, suspend=True)
    status = await submit(submitter, schedule, seconds_late=1)
    assert (status.standing, status.reason) == (SubmissionState.REFUSED, Reason.MISSED)
    assert await children(api, schedule) == 0


async def test_a_run_that_was_created_before_is_found_however_late_the_retry_is(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    first = await submit(submitter, schedule, seconds_late=0)
    assert first.run is not None
    await edit(api, schedule, suspend=True)
    due = (await api.get(RUNS, namespace, first.run.name))["metadata"]["annotations"]["inferrun.dev/scheduled-time"]
    late = (datetime.now(UTC) - datetime.fromisoformat(due)).total_seconds()
    again = await submit(submitter, schedule, seconds_late=late)
    assert again.run == first.run
    assert await children(api, schedule) == 1


async def test_a_run_that_a_quota_rejects_is_created_once_there_is_room(
    api: KubeClient, namespace: str, submitter: RunSubmitter, until: Until
) -> None:
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    hard = {"count/inferenceruns.ai.krateo.io": "0"}
    stored = await api.create(QUOTAS, namespace, {"metadata": {"name": "runs"}, "spec": {"hard": hard}})
    # The quota controller discovers a new kind only after minutes.
    await api.patch(QUOTAS, namespace, "runs", {"status": {"hard": hard, "used": hard}}, sub="status")

    async def is_rejected() -> bool:
        try:
            await submit(submitter, schedule, seconds_late=1)
        except Forbidden as error:
            return "exceeded quota" in str(error)
        return False

    await until(is_rejected)
    assert "QuotaExceeded" in await event_reasons(api, namespace)
    before = await children(api, schedule)
    await api.delete(QUOTAS, namespace, "runs", uid=stored["metadata"]["uid"])

    async def is_created() -> bool:
        try:
            return (await submit(submitter, schedule, seconds_late=2)).run is not None
        except Forbidden:
            return False

    await until(is_created)
    assert await children(api, schedule) == before + 1


async def test_a_run_whose_name_is_taken_is_reported_on_its_schedule(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    due = datetime.now(UTC).replace(microsecond=0)
    taken = scheduled_run_name("hourly", rfc3339(due))
    await create(api, namespace, taken)
    status = await submit(submitter, schedule, due=due)
    assert (status.standing, status.reason) == (SubmissionState.REFUSED, Reason.NAME_TAKEN)
    assert await event_reasons(api, namespace) == ["NameTaken"]

"""The run of a schedule is created, retried or missed, at the moment of its creation."""

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from activities.submit_run import RunSubmitter
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden
from inferrun.kube.objects import QUOTAS
from inferrun.names import scheduled_run_name
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339
from tests.integration.shim.runs import create
from tests.integration.shim.submissions import children, event_reasons, submit, submitter_of
from tests.integration.waiting import until
from workflows.messages import SubmissionState

pytestmark = pytest.mark.thorough


async def never(run: RunRef) -> None:
    raise AssertionError(f"{run} must not be cancelled")


@pytest.fixture
def submitter(api: KubeClient, temporal: Client) -> RunSubmitter:
    return submitter_of(api, temporal, cancel=never)


def late(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


async def test_a_run_that_a_quota_rejects_is_created_once_there_is_room(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    hard = {"count/inferenceruns.ai.krateo.io": "0"}
    stored = await api.create(
        QUOTAS, namespace, {"metadata": {"name": "runs"}, "spec": {"hard": hard}}
    )
    # The quota controller discovers a new kind only after minutes.
    await api.patch(
        QUOTAS, namespace, "runs", {"status": {"hard": hard, "used": hard}}, sub="status"
    )

    async def is_rejected() -> bool:
        try:
            await submit(submitter, schedule, late(1))
        except Forbidden as error:
            return "exceeded quota" in str(error)
        return False

    await until(is_rejected)
    assert "QuotaExceeded" in await event_reasons(api, namespace)
    before = len(await children(api, schedule))
    await api.delete(QUOTAS, namespace, "runs", uid=stored["metadata"]["uid"])

    async def is_created() -> bool:
        try:
            return (await submit(submitter, schedule, late(2))).run is not None
        except Forbidden:
            return False

    await until(is_created)
    assert len(await children(api, schedule)) == before + 1


async def test_a_run_whose_name_is_taken_is_reported_on_its_schedule(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    due = datetime.now(UTC).replace(microsecond=0)
    taken = scheduled_run_name("hourly", rfc3339(due))
    await create(api, namespace, taken)
    status = await submit(submitter, schedule, due)
    assert (status.standing, status.reason) == (SubmissionState.REFUSED, Reason.NAME_TAKEN)
    assert await event_reasons(api, namespace) == ["NameTaken"]

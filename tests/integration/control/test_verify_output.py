"""`VerifyOutput` on a real API server: one Job that asks, its result, and what is published
meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from temporalio.testing import ActivityEnvironment

from activities.launch_job import JobLauncher
from activities.verify_output import OutputVerifier
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden
from inferrun.kube.objects import JOBS, PODS, RUNS, Object, name_of, uid_of
from inferrun.kube.runs import RunStore
from inferrun.launches import manifests
from inferrun.launches.manifests import HELD
from inferrun.names import verify_job_name
from inferrun.reasons import Phase, Reason
from inferrun.runner_report import OutputState, dump_result
from tests.integration.control.place import Place
from tests.integration.control.pods import (
    COMMITTED,
    IMAGE,
    NOWHERE,
    Launched,
    jobs_of,
    launcher_of,
    only_one_job_more,
)
from tests.integration.control.proxy import Proxy
from tests.integration.waiting import eventually
from tests.unit.launches import INSTALLATION
from workflows.messages import VerifyInput, VerifyResult


@pytest.fixture
def verifier(api: KubeClient) -> OutputVerifier:
    return OutputVerifier(api, RunStore(api), installation=INSTALLATION)


@pytest.fixture
def launcher(api: KubeClient) -> JobLauncher:
    """The built-in runner has an image."""
    return launcher_of(api, runner_image=IMAGE)


@pytest.fixture
async def ours(place: Place) -> Launched:
    """A launched run of the built-in runner with a file output."""
    return await place.launched(await place.built_in())


async def verify(
    verifier: OutputVerifier, of: Launched, *, since: datetime | None = None, **changes: object
) -> VerifyResult:
    """`since`: when the first try was due; by default so long ago that this is the last one."""
    request = VerifyInput(
        run=of.run.ref,
        job_name=of.result.job_name,
        launch=1,
        attempt=1,
        snapshot=of.result.snapshot,
        because="the Pod no longer exists",
    )
    environment = ActivityEnvironment()
    due = since or environment.info.scheduled_time
    environment.info = replace(environment.info, scheduled_time=due, started_time=datetime.now(UTC))
    result: VerifyResult = await environment.run(
        verifier.verify_output, request.model_copy(update=changes)
    )
    return result


async def test_a_verification_that_a_webhook_puts_into_a_queue_is_not_in_it_before_it_can_be_counted(
    proxy: Proxy, verifier: OutputVerifier, ours: Launched
) -> None:
    proxy.holds_jobs_of_queues, proxy.default_queue = True, "default"
    result = await verify(verifier, ours)
    created = [
        request.body
        for request in proxy.sent("POST")
        if request.path.endswith("/jobs") and request.body
    ]
    assert HELD.items() <= created[-1]["metadata"]["labels"].items()
    started = [
        request.body for request in proxy.sent("PATCH") if "/jobs/" in request.path and request.body
    ]
    expected = {"uid": result.job_uid, "labels": dict.fromkeys(HELD)}
    assert (started[-1]["metadata"], started[-1]["spec"]) == (expected, {"parallelism": 1})


@pytest.mark.thorough
async def test_one_job_asks_however_often_the_activity_is_called(
    verifier: OutputVerifier, ours: Launched
) -> None:
    first = await verify(verifier, ours)
    assert await verify(verifier, ours, job_uid=first.job_uid) == first
    assert (first.finding, bool(first.job_uid)) == (None, True)
    assert len(await jobs_of(ours.api, ours.run)) == 2
    pod = await ours.verifying().pod()
    assert pod["spec"]["containers"][0]["image"] == IMAGE
    assert pod["metadata"]["labels"]["inferrun.dev/run-uid"] == ours.run.metadata.uid


async def test_the_status_says_that_it_is_under_way_and_the_launch_is_done_with(
    verifier: OutputVerifier, ours: Launched
) -> None:
    await verify(verifier, ours)
    run = await ours.says(Reason.VERIFYING)
    assert run.status.phase is Phase.PENDING
    assert "the Pod no longer exists" in (run.status.message or "")
    assert (await ours.job())["metadata"]["labels"]["inferrun.dev/ended"] == "true"


RUNS_ON = {"running": {"startedAt": "2026-11-21T08:00:00Z"}}


async def test_what_the_pod_found_is_the_result_although_another_container_of_it_runs_on(
    verifier: OutputVerifier, ours: Launched
) -> None:
    began = await verify(verifier, ours)
    asking = ours.verifying()
    await asking.ends(0, message=dump_result(COMMITTED), beside=RUNS_ON)
    found = await verify(verifier, ours, job_uid=began.job_uid)
    assert found == VerifyResult(finding=COMMITTED, job_uid=began.job_uid)
    assert [name_of(job) for job in await jobs_of(ours.api, ours.run)] == [ours.result.job_name]


async def test_a_pod_that_failed_to_find_out_is_replaced_although_another_container_of_it_runs_on(
    verifier: OutputVerifier, ours: Launched
) -> None:
    await verify(verifier, ours)
    asking = ours.verifying()
    first = await asking.pod()
    await asking.ends(1, message=dump_result(COMMITTED), beside=RUNS_ON)
    assert (await verify(verifier, ours)).finding is None, "a Pod that failed is believed"

    async def look() -> Object | None:
        selector = f"batch.kubernetes.io/job-name={asking.result.job_name}"
        pods = (await ours.api.list(PODS, ours.namespace, labelSelector=selector))["items"]
        return next((pod for pod in pods if uid_of(pod) != uid_of(first)), None)

    await eventually(look, what="another Pod that asks")


@pytest.mark.parametrize("is_owned", [True, False], ids=["owned", "orphan"])
async def test_a_planted_job_under_the_name_of_the_verification_answers_nothing(
    verifier: OutputVerifier, ours: Launched, *, is_owned: bool
) -> None:
    name = verify_job_name(ours.result.job_name, 1, is_final=False)
    labels = manifests.labels_of(ours.run.ref, installation=INSTALLATION.id)
    owners = [manifests.owner_reference(ours.run.ref)] if is_owned else []
    container = {"name": manifests.CONTAINER, "image": "theirs:1", "resources": NOWHERE}
    template = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "labels": labels, "ownerReferences": owners}
    planted = await ours.api.create(
        JOBS, ours.namespace, {"metadata": metadata, "spec": {"template": template}}
    )
    asking = ours.verifying()
    await asking.ends(0, message=dump_result(COMMITTED))
    await asking.is_finished()

    result = await verify(verifier, ours)

    assert result.finding is not None
    assert (result.finding.state, result.job_uid) == (OutputState.UNKNOWN, "")
    assert name in result.finding.message
    assert (await asking.job())["metadata"]["uid"] == planted["metadata"]["uid"], (
        "it is not ours to delete"
    )


@pytest.mark.thorough
async def test_what_a_planted_pod_of_the_verification_says_is_not_used(
    verifier: OutputVerifier, ours: Launched
) -> None:
    """Not even if the Job is complete because of it."""
    began = await verify(verifier, ours)
    asking = ours.verifying()
    genuine = await asking.pod()
    owners, labels = genuine["metadata"]["ownerReferences"], genuine["metadata"]["labels"]
    container = {"name": manifests.CONTAINER, "image": "theirs:1", "resources": NOWHERE}
    metadata = {
        "name": f"{ours.result.job_name}-planted",
        "labels": labels,
        "ownerReferences": owners,
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    body = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    planted = await ours.api.create(PODS, ours.namespace, body)
    ended = {"exitCode": 0, "reason": "Completed", "message": dump_result(COMMITTED)}
    status = {**body["spec"]["containers"][0], "imageID": "", "ready": False, "restartCount": 0}
    del status["resources"]
    told = {"phase": "Succeeded", "containerStatuses": [{**status, "state": {"terminated": ended}}]}
    await ours.api.patch(
        PODS, ours.namespace, planted["metadata"]["name"], {"status": told}, sub="status"
    )
    await asking.is_finished()

    result = await verify(verifier, ours, job_uid=began.job_uid)

    assert result.job_uid == began.job_uid
    assert result.finding is not None
    assert result.finding.state is OutputState.UNKNOWN


@pytest.mark.thorough
async def test_a_verification_whose_time_is_up_is_deleted(
    verifier: OutputVerifier, ours: Launched
) -> None:
    began = await verify(verifier, ours)
    finding = (await verify(verifier, ours, job_uid=began.job_uid, must_conclude=True)).finding
    assert finding is not None
    assert finding.state is OutputState.UNKNOWN
    names = [
        job["metadata"]["name"]
        for job in await jobs_of(ours.api, ours.run)
        if "deletionTimestamp" not in job["metadata"]
    ]
    assert names == [ours.result.job_name]


@pytest.mark.thorough
async def test_a_verification_that_was_frozen_until_the_run_ended_withdraws_its_job(
    proxy: Proxy, api: KubeClient, verifier: OutputVerifier, ours: Launched
) -> None:
    proxy.delay_post_to = "/jobs"
    frozen = asyncio.ensure_future(verify(verifier, ours))
    async with asyncio.timeout(60):
        await proxy.is_delaying.wait()
    ended = {"phase": "Failed", "reason": "Cancelled", "completionTime": "2026-11-21T08:00:00Z"}
    await api.patch(RUNS, ours.namespace, ours.run.metadata.name, {"status": ended}, sub="status")
    proxy.is_arriving.set()
    assert (await frozen).gone
    assert [job["metadata"]["name"] for job in await jobs_of(ours.api, ours.run)] == [
        ours.result.job_name
    ]


@pytest.fixture
async def crowded(api: KubeClient, ours: Launched) -> AsyncIterator[Launched]:
    """A launch that has failed, in a namespace that allows no other Job besides its own."""
    await ours.ends(137)
    await ours.is_finished()
    async with only_one_job_more(
        api, ours.namespace, than=len((await api.list(JOBS, ours.namespace))["items"]) - 1
    ):
        yield ours


@pytest.mark.thorough
async def test_the_job_that_is_verified_makes_room_for_the_verification(
    verifier: OutputVerifier, crowded: Launched
) -> None:
    since = datetime.now(UTC)
    with pytest.raises(Forbidden):
        await verify(verifier, crowded, since=since)
    run = await crowded.says(Reason.VERIFYING)
    assert "exceeded quota" in (run.status.message or "")

    async def is_admitted() -> VerifyResult | None:
        try:
            return await verify(verifier, crowded, since=since)
        except Forbidden:
            return None

    began = await eventually(is_admitted, what="the verifying Job to be admitted")
    assert began.job_uid
    assert "exceeded quota" not in ((await crowded.now()).status.message or "")

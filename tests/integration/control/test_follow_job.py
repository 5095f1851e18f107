"""`FollowJob` on a real API server: it publishes the progress of a Job and judges its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex

import pytest
from temporalio.testing import ActivityEnvironment

from activities.cluster.events import EventRecorder
from activities.cluster.job_watch import JobWatch, changed
from activities.cluster.new_runs import NewRuns
from activities.cluster.progress_publisher import ProgressPublisher
from activities.follow_job import JobFollower
from activities.installation import Installation
from activities.launch_job import JobLauncher
from activities.rules import manifests
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import CONFIG_MAPS, JOBS, PODS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.runner_report import RecordCounts, RunnerResult, dump_result
from tests.integration.control.conftest import MakeConfig, MakeRun
from tests.integration.control.pods import FINISHED, NOWHERE, STARTED, WAIT_SECONDS, Launched, launched
from tests.integration.control.proxy import Proxy, until
from workflows.messages import FollowResult, FollowUntil, VerdictKind

RUNNER = "localhost/inferrun-tests/runner:1"
API = {"api": {"path": "/rows", "verb": "POST", "endpointRef": {"name": "handler"}}}
KRATEO = {"input": {"krateo": API}, "output": {"krateo": API}}
RESULT = RunnerResult(
    reason=Reason.SUCCEEDED, message="9 of 9", records=RecordCounts(total=9, completed=9), delivery="ExactlyOnce"
)


@pytest.fixture
def installation() -> Installation:
    """A new installation for each test, so that tests do not see each other's Jobs."""
    return Installation(
        id=f"tests.{token_hex(8)}", task_queue="tests", namespace="default", temporal_namespace="default", ui_url=""
    )


@pytest.fixture
async def watch(api: KubeClient, namespace: str, installation: Installation) -> AsyncIterator[JobWatch]:
    """The shared watch of a worker."""
    made = JobWatch(api, namespaces=Namespaces((namespace,)), selector=manifests.SELECTOR)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def job(api: KubeClient, installation: Installation, make_run: MakeRun, make_config: MakeConfig) -> Launched:
    """A run of the built-in runner whose Job exists."""
    launcher = JobLauncher(
        api,
        RunStore(api),
        installation=installation,
        defaults=lambda: Defaults(runner_image=RUNNER),
        runner_account="",
        new_runs=NewRuns(),
    )
    config = await make_config(
        image=RUNNER, resources=NOWHERE, kserve={"modelName": "m", "modelUrl": "http://m"}, storage=KRATEO
    )
    return await launched(api, launcher, await make_run(configRef={"name": config}))


@asynccontextmanager
async def following(
    api: KubeClient, watch: JobWatch, job: Launched, follow_until: FollowUntil
) -> AsyncIterator["asyncio.Task[FollowResult]"]:
    publisher = ProgressPublisher(RunStore(api), events=EventRecorder(api, reporter="tests"))
    follower = JobFollower(api, RunStore(api), watch=watch, publisher=publisher)
    request = job.follow_input(follow_until)
    task = asyncio.create_task(ActivityEnvironment().run(follower.follow_job, request))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def in_time(task: "asyncio.Task[FollowResult]") -> FollowResult:
    return await asyncio.wait_for(task, WAIT_SECONDS)


async def test_an_unschedulable_pod_is_reported_in_the_status_and_as_an_event(
    api: KubeClient, watch: JobWatch, job: Launched
) -> None:
    async with following(api, watch, job, FollowUntil.STARTED):
        run = await job.says(Reason.UNSCHEDULABLE)
        assert run.status.phase is Phase.PENDING
        assert "cannot be scheduled" in (run.status.message or "")
        await job.has_event("Unschedulable", "Warning")


async def test_the_start_of_the_container_ends_the_first_follower(
    api: KubeClient, watch: JobWatch, job: Launched
) -> None:
    async with following(api, watch, job, FollowUntil.STARTED) as task:
        await job.runs()
        result = await in_time(task)
    pod = await job.pod()
    assert (result.started_at, result.pod_name, result.verdict) == (STARTED, pod["metadata"]["name"], None)
    status = (await job.now()).status
    assert (status.phase, status.reason) == (Phase.RUNNING, "Running")
    assert status.start_time is not None
    await job.has_event("Running", "Normal")


async def test_a_finished_job_is_judged_by_the_runners_result(api: KubeClient, watch: JobWatch, job: Launched) -> None:
    await job.runs()
    async with following(api, watch, job, FollowUntil.FINISHED) as task:
        await job.ends(0, message=dump_result(RESULT))
        verdict = (await in_time(task)).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.records, verdict.delivery) == (VerdictKind.SUCCEEDED, RESULT.records, "ExactlyOnce")


async def test_a_late_follower_comes_to_the_same_verdict(api: KubeClient, watch: JobWatch, job: Launched) -> None:
    await job.ends(3, message="no such table")
    await job.is_finished()
    for follow_until in FollowUntil:
        async with following(api, watch, job, follow_until) as task:
            verdict = (await in_time(task)).verdict
        assert verdict is not None
        assert (verdict.kind, verdict.reason, verdict.exit_code) == (VerdictKind.FAILED, Reason.INPUT_FAILED, 3)
        assert "no such table" in verdict.message


async def test_an_invalid_image_name_ends_the_launch_and_requests_a_stop(
    api: KubeClient, watch: JobWatch, job: Launched
) -> None:
    async with following(api, watch, job, FollowUntil.STARTED) as task:
        await job.tell({"waiting": {"reason": "InvalidImageName", "message": "no"}}, phase="Pending")
        result = await in_time(task)
    assert result.must_stop
    assert result.verdict is not None
    assert result.verdict.reason is Reason.INVALID_IMAGE_NAME


async def test_a_disrupted_pod_does_not_end_the_launch(api: KubeClient, watch: JobWatch, job: Launched) -> None:
    taken = {"exitCode": 137, "reason": "Error", "startedAt": STARTED, "finishedAt": FINISHED}
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    await job.runs()
    async with following(api, watch, job, FollowUntil.FINISHED) as task:
        await job.says(Reason.RUNNING)
        await job.tell({"terminated": taken}, phase="Failed", conditions=[evicted])
        result = await in_time(task)
    assert (result.verdict, result.started_at, result.is_disrupted) == (None, None, True)


async def test_a_deleted_job_ends_the_follower(api: KubeClient, watch: JobWatch, job: Launched) -> None:
    async with following(api, watch, job, FollowUntil.STARTED) as task:
        await job.says(Reason.UNSCHEDULABLE)
        await api.delete(JOBS, job.namespace, job.result.job_name, uid=job.result.job_uid)
        verdict = (await in_time(task)).verdict
    assert verdict is not None
    assert verdict.kind is VerdictKind.JOB_GONE


async def test_a_follower_that_starts_after_everything_was_deleted_ends(
    api: KubeClient, watch: JobWatch, job: Launched
) -> None:
    """The run was deleted while no worker was running; the follower must not wait for its ConfigMap forever."""
    stored = await api.get(CONFIG_MAPS, job.namespace, job.result.job_name)
    await api.delete(CONFIG_MAPS, job.namespace, job.result.job_name, uid=stored["metadata"]["uid"])
    async with following(api, watch, job, FollowUntil.FINISHED) as task:
        result = await in_time(task)
    assert result.must_stop
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.JOB_GONE


async def test_when_nothing_changes_nothing_is_written(
    api: KubeClient, watch: JobWatch, job: Launched, proxy: Proxy
) -> None:
    async with following(api, watch, job, FollowUntil.STARTED):
        await job.says(Reason.UNSCHEDULABLE)
        sent = len(proxy.sent("PATCH"))
        pod = await job.pod()
        event = watch.subscribe(job.namespace, job.result.job_name)
        for number in range(3):
            annotations = {"metadata": {"annotations": {"tests/number": str(number)}}}
            await api.patch(PODS, job.namespace, pod["metadata"]["name"], annotations)
            assert await changed(event, seconds=WAIT_SECONDS)
    ours = [request for request in proxy.sent("PATCH")[sent:] if "inferenceruns" in request.path]
    assert not ours


async def test_a_late_follower_of_an_earlier_launch_publishes_nothing(
    api: KubeClient, watch: JobWatch, job: Launched
) -> None:
    await job.store.update_status(
        job.run.ref,
        lambda run: run.status.model_copy(
            update={
                "message": "the second launch",
                "job_status": run.status.job_status.model_copy(update={"name": "inf-later"})
                if run.status.job_status
                else None,
            }
        ),
    )
    async with following(api, watch, job, FollowUntil.STARTED) as task:
        await job.runs()
        await in_time(task)
    assert (await job.now()).status.message == "the second launch"


async def test_two_followers_share_two_watches(api: KubeClient, watch: JobWatch, job: Launched, proxy: Proxy) -> None:
    async with (
        following(api, watch, job, FollowUntil.STARTED) as one,
        following(api, watch, job, FollowUntil.STARTED) as other,
    ):
        await job.runs()
        assert await in_time(one) == await in_time(other)
    assert {request.path.split("/")[-1] for request in proxy.watches} == {"jobs", "pods"}
    assert len(proxy.watches) == 2


async def test_the_watch_forgets_deleted_objects(api: KubeClient, watch: JobWatch, job: Launched) -> None:
    await watch.synced()
    place = job.namespace, job.result.job_name
    await until(lambda: len(watch.pods(*place)) == 1, what="the Pod")
    event = watch.subscribe(*place)
    await api.delete(JOBS, *place, uid=job.result.job_uid)
    await until(lambda: watch.job(*place) is None and not watch.pods(*place), what="Job and Pod to go")
    assert event.is_set()
    watch.unsubscribe(*place, event)

"""`StopJob` on a real API server: what is deleted, in which order, and what is reported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from temporalio.testing import ActivityEnvironment

from activities.stop_job import POLL_SECONDS, JobStopper
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import PODS
from inferrun.kube.runs import RunStore
from tests.integration.control.pods import STARTED, WAIT_SECONDS, Launched
from tests.integration.control.proxy import Proxy
from workflows.messages import StopResult, VerdictKind


@pytest.fixture
def stopper(api: KubeClient) -> JobStopper:
    """The activity's instance."""
    return JobStopper(api, RunStore(api))


async def stop(stopper: JobStopper, job: Launched, *, grace: int) -> StopResult:
    running = ActivityEnvironment().run(stopper.stop_job, job.stop_input(grace=grace))
    result: StopResult = await asyncio.wait_for(running, WAIT_SECONDS)
    return result


@pytest.mark.parametrize("grace", [5, 10])
async def test_a_stop_deletes_the_pod_first_with_its_own_grace_then_the_job(
    stopper: JobStopper, job: Launched, proxy: Proxy, grace: int
) -> None:
    pod = await job.pod()
    await stop(stopper, job, grace=grace)
    first, second = proxy.sent("DELETE")
    assert first.path.endswith(f"/pods/{pod['metadata']['name']}")
    assert first.body is not None
    assert first.body["gracePeriodSeconds"] == grace
    assert first.body["preconditions"] == {"uid": pod["metadata"]["uid"]}
    assert first.body["propagationPolicy"] == "Background"
    assert second.path.endswith(f"/jobs/{job.result.job_name}")
    assert second.body is not None
    assert second.body["preconditions"] == {"uid": job.result.job_uid}
    assert second.body["propagationPolicy"] == "Background"
    assert "gracePeriodSeconds" not in second.body


async def test_after_a_stop_neither_job_nor_pod_is_left(stopper: JobStopper, job: Launched, api: KubeClient) -> None:
    await stop(stopper, job, grace=5)
    with pytest.raises(NotFound):
        await job.job()
    selector = f"batch.kubernetes.io/controller-uid={job.result.job_uid}"
    assert (await api.list(PODS, job.namespace, labelSelector=selector))["items"] == []


async def test_a_stop_reports_what_the_run_was_waiting_for(stopper: JobStopper, job: Launched) -> None:
    await job.tell({"waiting": {"reason": "ImagePullBackOff", "message": "no route to host"}}, phase="Pending")
    result = await stop(stopper, job, grace=10)
    assert result.verdict is None
    assert "cannot be pulled" in result.last_wait_message
    assert "no route to host" in result.last_wait_message


async def test_a_stop_reports_the_success_of_a_finished_job(stopper: JobStopper, job: Launched) -> None:
    await job.ends(0, message="all done")
    await job.is_finished()
    result = await stop(stopper, job, grace=5)
    assert result.verdict is not None
    assert (result.verdict.kind, result.verdict.message) == (VerdictKind.SUCCEEDED, "all done")


async def test_a_stop_only_if_waiting_leaves_a_running_container_alone(
    stopper: JobStopper, job: Launched, proxy: Proxy
) -> None:
    await job.runs()
    request = job.stop_input(grace=10).model_copy(update={"only_if_waiting": True})
    result: StopResult = await ActivityEnvironment().run(stopper.stop_job, request)
    assert (result.started_at, result.pod_name) == (STARTED, (await job.pod())["metadata"]["name"])
    assert not proxy.sent("DELETE")


async def test_a_stop_only_if_waiting_stops_a_waiting_job(stopper: JobStopper, job: Launched, proxy: Proxy) -> None:
    request = job.stop_input(grace=10).model_copy(update={"only_if_waiting": True})
    result: StopResult = await ActivityEnvironment().run(stopper.stop_job, request)
    assert result.started_at is None
    assert len(proxy.sent("DELETE")) == 2


async def test_a_container_that_exits_with_0_while_it_is_stopped_has_succeeded(
    stopper: JobStopper, job: Launched, api: KubeClient
) -> None:
    """As on a node: the Pod is there until its grace is over, here until a finalizer goes."""
    await job.runs()
    async with _held(api, job) as pod, asyncio.TaskGroup() as tasks:
        stopping = tasks.create_task(stop(stopper, job, grace=5))
        await job.is_being_stopped()
        assert not stopping.done()
        await job.ends(0, message="all done")
        await asyncio.wait([stopping], timeout=2 * POLL_SECONDS)  # until the stop has looked at the Pod again
        await _let_go(api, job, pod)
    result = stopping.result()
    assert result.verdict is not None
    assert (result.verdict.kind, result.verdict.message) == (VerdictKind.SUCCEEDED, "all done")


@asynccontextmanager
async def _held(api: KubeClient, job: Launched) -> AsyncIterator[str]:
    """The Pod, of that name, has a finalizer. It goes in any case: nothing else would ever delete the Pod and its namespace."""
    metadata = (await job.pod())["metadata"]
    finalizers = [*metadata.get("finalizers", []), "inferrun.test/held"]
    await api.patch(PODS, job.namespace, metadata["name"], {"metadata": {"finalizers": finalizers}})
    try:
        yield metadata["name"]
    finally:
        with suppress(NotFound):
            await _let_go(api, job, metadata["name"])


async def _let_go(api: KubeClient, job: Launched, pod: str) -> None:
    await api.patch(PODS, job.namespace, pod, {"metadata": {"finalizers": None}})


async def test_stopping_a_job_that_is_already_gone_succeeds(stopper: JobStopper, job: Launched) -> None:
    await stop(stopper, job, grace=5)
    assert await stop(stopper, job, grace=5) == StopResult()


async def test_a_stop_leaves_another_job_of_that_name_alone(
    stopper: JobStopper, job: Launched, api: KubeClient
) -> None:
    request = job.stop_input(grace=5).model_copy(update={"job_uid": "00000000-0000-0000-0000-000000000000"})
    await ActivityEnvironment().run(stopper.stop_job, request)
    assert (await job.job())["metadata"]["uid"] == job.result.job_uid

"""A `POST` of a Job that reaches the API server late: after its caller gave up, after a stop, after
the run's end.

The Job controller is real. A Job that it has seen without creating a Pod starts no container.
"""

import asyncio

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, PODS, Object
from inferrun.launches.manifests import HELD
from inferrun.names import job_base_name, job_name
from inferrun.resources import InferenceRun
from tests.integration.control.place import Place
from tests.integration.control.pods import NOWHERE, Launched, jobs_of
from tests.integration.control.proxy import QUEUE_LABEL, Proxy
from tests.integration.waiting import eventually
from workflows.messages import LaunchResult, LaunchState

SECONDS = 30


@pytest.fixture
async def run(place: Place) -> InferenceRun:
    return await place.run(await place.config(resources=NOWHERE))


@pytest.fixture
async def queued(place: Place) -> InferenceRun:
    """A run whose Job waits in a queue."""
    return await place.run(await place.config(resources=NOWHERE), labels={QUEUE_LABEL: "batch"})


async def delayed(place: Place, proxy: Proxy, run: InferenceRun) -> asyncio.Task[LaunchResult]:
    """A launch whose Job is on its way to the API server."""
    proxy.delay_post_to = "/jobs"
    first = asyncio.ensure_future(place.launch(run))
    async with asyncio.timeout(SECONDS):
        await proxy.is_delaying.wait()
    return first


async def gives_up(first: asyncio.Task[LaunchResult]) -> None:
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def end(place: Place, run: InferenceRun) -> None:
    status = {"phase": "Failed", "reason": "Cancelled", "completionTime": "2026-11-21T08:00:00Z"}
    await place.write_status(run, status)


async def arrived(place: Place, proxy: Proxy, run: InferenceRun, *, after: str = "") -> Object:
    """The delayed Job, once its controller has dealt with it."""
    proxy.is_arriving.set()
    name = job_name(job_base_name(run.metadata.name, run.metadata.uid), 1)

    async def look() -> Object | None:
        try:
            job = await place.job(name)
        except NotFound:
            return None
        is_seen = job["metadata"]["uid"] != after and (job.get("status") or {}).get("startTime")
        return job if is_seen else None

    return await eventually(look, what="the Job controller has seen the late Job")


async def admit(place: Place, job: Object) -> Object:
    """What Kueue does when there is capacity; returns the Job once its controller has dealt with
    it."""
    name = job["metadata"]["name"]
    await place.api.patch(JOBS, place.namespace, name, {"spec": {"suspend": False}})

    async def look() -> Object | None:
        seen = await place.job(name)
        return seen if (seen.get("status") or {}).get("startTime") else None

    return await eventually(look, what="the Job controller has seen the admitted Job")


async def pods_of(api: KubeClient, job: Object) -> list[Object]:
    selector = f"batch.kubernetes.io/controller-uid={job['metadata']['uid']}"
    return list(
        (await api.list(PODS, job["metadata"]["namespace"], labelSelector=selector))["items"]
    )


async def test_a_job_that_arrives_after_the_end_of_its_run_starts_no_container(
    place: Place, proxy: Proxy, run: InferenceRun
) -> None:
    await gives_up(await delayed(place, proxy, run))
    await end(place, run)
    assert await pods_of(place.api, await arrived(place, proxy, run)) == []


async def test_a_try_that_was_frozen_withdraws_its_job(
    place: Place, proxy: Proxy, run: InferenceRun
) -> None:
    """Its process was stopped for so long that the run ended meanwhile, and continues as if nothing
    had happened."""
    first = await delayed(place, proxy, run)
    await end(place, run)
    proxy.is_arriving.set()
    assert (await first).state is LaunchState.TERMINAL
    assert await jobs_of(place.api, run) == []


@pytest.mark.thorough
async def test_a_try_that_was_frozen_does_not_start_its_job_beside_a_later_launch(
    place: Place, proxy: Proxy, run: InferenceRun
) -> None:
    first = await delayed(place, proxy, run)
    stopped = await place.launch(run)
    await Launched(place.api, run, stopped).stop(grace_seconds=0)
    second = await place.launch(run, launch=2, attempt=2)
    proxy.is_arriving.set()
    late = await first
    status = await place.status(run)
    assert status["jobStatus"]["uid"] == second.job_uid
    assert late.job_uid != second.job_uid
    assert [job["metadata"]["uid"] for job in await jobs_of(place.api, run)] == [second.job_uid]


@pytest.mark.thorough
async def test_a_late_job_of_a_queue_starts_no_container_even_if_it_is_admitted(
    place: Place, proxy: Proxy, queued: InferenceRun
) -> None:
    proxy.holds_jobs_of_queues = True
    await gives_up(await delayed(place, proxy, queued))
    await end(place, queued)
    proxy.is_arriving.set()
    name = job_base_name(queued.metadata.name, queued.metadata.uid)

    async def look() -> Object | None:
        try:
            return await place.job(name)
        except NotFound:
            return None

    late = await eventually(look, what="the late Job")
    assert late["spec"]["suspend"]
    assert HELD.items() <= late["metadata"]["labels"].items()
    assert await pods_of(place.api, await admit(place, late)) == []


async def test_a_job_that_a_webhook_puts_into_a_queue_is_not_in_it_before_it_can_be_counted(
    place: Place, proxy: Proxy, run: InferenceRun
) -> None:
    """Kueue would admit the Job without Pods at once, and count them only after one has started."""
    proxy.holds_jobs_of_queues, proxy.default_queue = True, "default"
    launched = await place.launch(run)
    job = await place.job(launched.job_name)
    assert job["metadata"]["uid"] == launched.job_uid
    assert (job["spec"]["suspend"], job["spec"]["parallelism"]) == (True, 1)
    assert job["metadata"]["labels"][QUEUE_LABEL] == "default"
    [created] = [
        request.body
        for request in proxy.sent("POST")
        if request.path.endswith("/jobs") and request.body
    ]
    assert HELD.items() <= created["metadata"]["labels"].items()
    [started] = [
        request.body for request in proxy.sent("PATCH") if "/jobs/" in request.path and request.body
    ]
    assert (started["metadata"]["labels"], started["spec"]["parallelism"]) == (
        dict.fromkeys(HELD),
        1,
    )
    again = await place.launch(run)
    assert (again.job_uid, again.is_adopted) == (launched.job_uid, True)

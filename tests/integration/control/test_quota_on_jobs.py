"""A quota `count/jobs.batch` also counts Jobs that have ended: those of finished runs, kept for a
day, must not stop a namespace.

Each test has a namespace of its own, because the quota counts all of its Jobs.
"""

import asyncio
from typing import Any

import pytest

from control.cluster.job_marks import mark_ended
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.timestamps import parse, utc_now
from tests.integration.control.place import Place
from tests.integration.control.pods import NOWHERE, Launched, only_one_job_more
from tests.integration.waiting import eventually
from workflows.messages import LaunchResult, LaunchState

RETRY_SECONDS = 0.5


@pytest.fixture
def namespace(own_namespace: str) -> str:
    return own_namespace


@pytest.fixture
async def config(place: Place) -> str:
    return await place.config(resources=NOWHERE)


async def is_launched(place: Place, run: InferenceRun, **changes: Any) -> LaunchResult:
    """The launch, tried after half a second as Temporal does: the quota's controller counts deleted
    Jobs a moment later."""

    async def look() -> LaunchResult | None:
        try:
            result = await place.launch(run, **changes)
        except LaunchBlocked:
            await asyncio.sleep(RETRY_SECONDS)
            return None
        assert result.state is LaunchState.LAUNCHED, result.message
        return result

    return await eventually(look, what="the launch")


async def launch_that_waits(place: Place, run: InferenceRun) -> LaunchResult:
    return await place.waits(run, Reason.QUOTA_EXCEEDED)


async def end(job: Launched, *, is_recorded: bool = True) -> None:
    await job.ends(4)
    await job.is_finished()
    if is_recorded:
        await mark_ended(job.api, job.run.ref, job.result.job_name)


async def jobs(api: KubeClient, namespace: str) -> set[str]:
    return {job["metadata"]["name"] for job in (await api.list(JOBS, namespace))["items"]}


@pytest.mark.parametrize("is_marked", [True, False])
async def test_the_job_of_an_attempt_that_failed_makes_room_for_the_next_one(
    place: Place, *, job: Launched, config: str, is_marked: bool
) -> None:
    """It is kept for its logs, as long as there is room. That of another run, although it is older,
    stays.

    A worker may have died before it marked the Job, and Temporal have forgotten the workflow that
    would have made up for it.
    """
    await end(job)
    second = await place.launched(await place.run(config))
    await end(second, is_recorded=is_marked)
    async with only_one_job_more(place.api, job.namespace, than=1):
        snapshot = second.result.snapshot
        result = await is_launched(place, second.run, launch=2, attempt=2, snapshot=snapshot)
    assert await jobs(place.api, job.namespace) == {job.result.job_name, result.job_name}


async def test_the_oldest_job_of_a_finished_run_makes_room_for_another_run(
    place: Place, job: Launched, config: str
) -> None:
    created = parse((await job.job())["metadata"]["creationTimestamp"])

    async def is_later() -> bool | None:
        return (utc_now() - created).total_seconds() > 1 or None

    await eventually(is_later, what="a second in which the other Job is created")
    later = await place.launched(await place.run(config))
    await end(later)
    await end(job)
    async with only_one_job_more(place.api, job.namespace, than=1):
        result = await is_launched(place, await place.run(config))
    assert await jobs(place.api, job.namespace) == {later.result.job_name, result.job_name}


@pytest.mark.parametrize("kept", ["not recorded", "running", "of another installation"])
async def test_no_other_job_makes_room(
    place: Place, *, job: Launched, config: str, kept: str
) -> None:
    if kept == "running":
        await job.runs()
        await mark_ended(place.api, job.run.ref, job.result.job_name)  # by a user
    else:
        await end(job, is_recorded=kept != "not recorded")
    if kept == "of another installation":
        labels = {wellknown.LABEL_INSTALLATION: "another.cluster"}
        await place.api.patch(
            JOBS, job.namespace, job.result.job_name, {"metadata": {"labels": labels}}
        )
    async with only_one_job_more(place.api, job.namespace, than=0):
        await launch_that_waits(place, await place.run(config))
    assert await jobs(place.api, job.namespace) == {job.result.job_name}

"""A quota `count/pods` also counts Pods that have ended: those of a run must not keep its own next
Pod from being created.

Each test has a namespace of its own, because the quota counts all of its Pods.
"""

from typing import Any

import pytest

from control.cluster.job_marks import mark_ended
from control.cluster.job_objects import list_events
from control.launches.diagnosis import diagnose_missing_pod
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, PODS, Object
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from tests.integration.control.place import Place
from tests.integration.control.pods import FINISHED, NOWHERE, STARTED, Launched
from tests.integration.waiting import create_quota, eventually
from workflows.messages import LaunchState


async def until_rejected(api: KubeClient, namespace: str, *, job_uid: str) -> None:
    """Return once a Pod of the Job was rejected by the quota."""

    async def is_rejected() -> Object | None:
        selector = f"involvedObject.uid={job_uid}"
        found = (await api.list(EVENTS, namespace, fieldSelector=selector))["items"]
        return next(
            (event for event in found if "exceeded quota: one" in event.get("message", "")), None
        )

    await eventually(is_rejected, what="the Pod to be rejected")


async def until_its_pod_is_rejected(place: Place, run: InferenceRun, **changes: Any) -> Launched:
    result = await place.launch(run, **changes)
    assert result.state is LaunchState.LAUNCHED
    await until_rejected(place.api, run.metadata.namespace, job_uid=result.job_uid)
    return Launched(place.api, run, result)


@pytest.fixture
def namespace(own_namespace: str) -> str:
    return own_namespace


@pytest.fixture
async def second(place: Place, job: Launched) -> Launched:
    """The second launch of a run whose first one has failed; its Pod was rejected by a quota that
    the first one's exhausts."""
    await create_quota(place.api, job.namespace, "one", PODS, hard=1)
    await job.ends(4)
    await job.is_finished()
    await mark_ended(place.api, job.run.ref, job.result.job_name)
    return await until_its_pod_is_rejected(
        place, job.run, launch=2, attempt=2, snapshot=job.result.snapshot
    )


@pytest.fixture
async def other(place: Place, job: Launched) -> Launched:
    """The first launch of a run, whose Pod is rejected because of the one of a run that has
    ended."""
    await create_quota(place.api, job.namespace, "one", PODS, hard=1)
    await job.ends(0)
    await job.is_finished()
    await mark_ended(place.api, job.run.ref, job.result.job_name)
    run = await place.run(await place.config(resources=NOWHERE))
    return await until_its_pod_is_rejected(place, run)


async def test_the_pod_of_an_attempt_that_failed_makes_room_for_the_next_one(
    api: KubeClient, second: Launched
) -> None:
    await second.inspect()
    assert await second.pod()


async def test_the_pod_of_a_run_that_has_ended_makes_room_for_that_of_another_run(
    api: KubeClient, other: Launched
) -> None:
    await other.inspect()
    assert await other.pod()


async def test_an_evicted_pod_in_the_way_of_its_replacement_is_reported_with_what_helps(
    api: KubeClient, job: Launched
) -> None:
    await create_quota(api, job.namespace, "one", PODS, hard=1)
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    ended = {"exitCode": 137, "reason": "Error", "startedAt": STARTED, "finishedAt": FINISHED}
    first = (await job.pod())["metadata"]["uid"]
    await job.tell({"terminated": ended}, phase="Failed", conditions=[evicted])
    await until_rejected(api, job.namespace, job_uid=job.result.job_uid)

    stored = await job.job()
    wait = diagnose_missing_pod(stored, await list_events(api, job.namespace, stored))
    assert wait.reason is Reason.QUOTA_EXCEEDED
    *_, selector = wait.message.split("--field-selector=")

    listed = await api.list(PODS, job.namespace, fieldSelector=selector)
    assert [item["metadata"]["uid"] for item in listed["items"]] == [first]
    for item in listed["items"]:
        await api.delete(PODS, job.namespace, item["metadata"]["name"], uid=first)

    async def is_replaced() -> bool | None:
        pods = (await api.list(PODS, job.namespace))["items"]
        return [item["metadata"]["uid"] for item in pods] not in ([], [first]) or None

    await eventually(is_replaced, what="the evicted Pod to be replaced")

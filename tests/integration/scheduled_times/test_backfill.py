"""A back-fill starts the runs of a schedule for past times: each once, a few at a time, whatever happens to its workflow."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from temporalio.client import Client

from campaigns.benchmarks.control_plane import ControlPlane
from inferrun import wellknown
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.names import run_workflow_id
from inferrun.resources import InferenceRun, parse_run
from inferrun.resources.status import BackfillStatus
from inferrun.timestamps import parse
from operator_shim.shim import Shim
from tests.integration.shim.conftest import StartShim, Until
from tests.integration.shim.runs import edit, read
from worker.composition import WorkerProcess

SUCCEEDED = {"phase": "Succeeded", "reason": "Succeeded", "completionTime": "2026-11-21T08:00:00Z"}
FAILED = {"phase": "Failed", "reason": "InputFailed", "completionTime": "2026-11-21T08:00:00Z"}
DAYS = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-04T23:59:59Z"}
NAMES = [f"nightly-202603{day:02}020000" for day in (1, 2, 3, 4)]

Given = dict[str, Any]  # JSON of a spec
Apply = Callable[..., Any]


@pytest.fixture
async def shim(served: WorkerProcess, start_shim: StartShim) -> AsyncIterator[Shim]:
    assert served.is_ready
    async with start_shim() as started:
        yield started


@pytest.fixture
async def schedule(api: KubeClient, namespace: str, shim: Shim) -> InferenceRun:
    assert shim.is_ready
    return await apply(
        api, namespace, "nightly", {"configRef": {"name": "absent"}, "schedule": "0 2 * * *", "suspend": True}
    )


async def apply(api: KubeClient, namespace: str, name: str, spec: Given) -> InferenceRun:
    body = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    return parse_run(await api.create(RUNS, namespace, body))


async def start(api: KubeClient, schedule: InferenceRun, **more: Any) -> InferenceRun:
    given = {"schedule": schedule.metadata.name, **DAYS, **more}
    return await apply(api, schedule.metadata.namespace, "march", {"backfill": given})


async def names(api: KubeClient, schedule: InferenceRun) -> list[str]:
    return sorted(item["metadata"]["name"] for item in await children(api, schedule))


async def children(api: KubeClient, schedule: InferenceRun) -> list[Object]:
    selector = f"{wellknown.LABEL_SCHEDULE_UID}={schedule.metadata.uid}"
    return list((await api.list(RUNS, schedule.metadata.namespace, labelSelector=selector))["items"])


async def end(api: KubeClient, namespace: str, name: str, status: Object) -> None:
    await api.patch(RUNS, namespace, name, {"status": status}, sub="status")


async def test_its_runs_are_started_one_after_the_other_and_counted(
    api: KubeClient, schedule: InferenceRun, until: Until
) -> None:
    backfill = await start(api, schedule)
    for number, name in enumerate(NAMES):
        await until(lambda: names(api, schedule), lambda found, number=number: len(found) == number + 1)
        assert await names(api, schedule) == NAMES[: number + 1]
        await end(api, schedule.metadata.namespace, name, FAILED if number == 2 else SUCCEEDED)
    await until(lambda: read(api, backfill), lambda run: run.status.is_terminal)
    ended = (await read(api, backfill)).status
    assert (ended.phase, ended.reason) == ("Failed", "BackfillFailed")
    assert ended.message == f"4 scheduled times: 3 succeeded, 1 failed ({NAMES[2]})"
    assert ended.backfill == BackfillStatus(total=4, succeeded=3, failed=1)
    child = parse_run(await api.get(RUNS, schedule.metadata.namespace, NAMES[0]))
    assert child.metadata.annotations[wellknown.ANNOTATION_SCHEDULED_TIME] == "2026-03-01T02:00:00Z"
    assert child.metadata.annotations[wellknown.ANNOTATION_BACKFILL] == "march"
    assert child.metadata.owner_references[0].name == "nightly"


async def test_times_that_have_a_run_are_skipped_and_the_newest_is_first(
    api: KubeClient, schedule: InferenceRun, until: Until
) -> None:
    first = await start(api, schedule, end="2026-03-01T23:00:00Z")
    await until(lambda: names(api, schedule))
    await end(api, schedule.metadata.namespace, NAMES[0], SUCCEEDED)
    await until(lambda: read(api, first), lambda run: run.status.is_terminal)
    given = {"schedule": "nightly", **DAYS, "concurrency": 2, "order": "Descending"}
    second = await apply(api, schedule.metadata.namespace, "again", {"backfill": given})
    await until(lambda: names(api, schedule), lambda found: len(found) == 3)
    assert await names(api, schedule) == [NAMES[0], NAMES[2], NAMES[3]]
    await until(lambda: read(api, second), lambda run: run.status.phase == "Running")
    for name in (NAMES[3], NAMES[2]):
        await end(api, schedule.metadata.namespace, name, SUCCEEDED)
    await until(lambda: names(api, schedule), lambda found: len(found) == 4)
    await end(api, schedule.metadata.namespace, NAMES[1], SUCCEEDED)
    await until(lambda: read(api, second), lambda run: run.status.is_terminal)
    assert (await read(api, second)).status.message == "4 scheduled times: 3 succeeded, 1 skipped"


async def test_a_run_that_ended_before_its_start_was_recorded_counts_as_started(
    api: KubeClient, schedule: InferenceRun, until: Until
) -> None:
    """The worker died after it had created the run."""
    namespace = schedule.metadata.namespace
    given = {"schedule": "nightly", **DAYS, "end": "2026-03-01T23:00:00Z"}
    backfill = await apply(api, namespace, "march", {"suspend": True, "backfill": given})
    labels = {wellknown.LABEL_BACKFILL: backfill.metadata.uid, wellknown.LABEL_SCHEDULE_UID: schedule.metadata.uid}
    child = await apply(api, namespace, NAMES[0], {"configRef": {"name": "absent"}})
    await api.patch(RUNS, namespace, NAMES[0], {"metadata": {"labels": labels}})
    await end(api, namespace, child.metadata.name, SUCCEEDED)
    await edit(api, backfill, suspend=False)
    await until(lambda: read(api, backfill), lambda run: run.status.is_terminal)
    ended = (await read(api, backfill)).status
    assert ended.backfill == BackfillStatus(total=1, succeeded=1)
    assert ended.start_time is not None


async def test_a_run_that_ends_while_no_shim_runs_is_counted(
    api: KubeClient, namespace: str, served: WorkerProcess, start_shim: StartShim, until: Until
) -> None:
    assert served.is_ready
    async with start_shim():
        spec = {"configRef": {"name": "absent"}, "schedule": "0 2 * * *", "suspend": True}
        schedule = await apply(api, namespace, "nightly", spec)
        period = {"schedule": "nightly", **DAYS, "end": "2026-03-01T23:00:00Z"}
        backfill = await apply(api, namespace, "past", {"backfill": period})  # listed after its runs
        await until(lambda: read(api, backfill), lambda run: run.status.phase == "Running")
        assert await names(api, schedule) == NAMES[:1]
    await end(api, namespace, NAMES[0], SUCCEEDED)
    async with start_shim():
        await until(lambda: read(api, backfill), lambda run: run.status.is_terminal)
    assert (await read(api, backfill)).status.backfill == BackfillStatus(total=1, succeeded=1)


async def test_it_is_suspended_resumed_and_cancelled(api: KubeClient, schedule: InferenceRun, until: Until) -> None:
    namespace = schedule.metadata.namespace
    backfill = await start(api, schedule)
    await until(lambda: names(api, schedule))
    await edit(api, backfill, suspend=True)
    await until(lambda: read(api, backfill), lambda run: run.status.phase == "Suspended")
    await end(api, namespace, NAMES[0], SUCCEEDED)
    await until(lambda: read(api, backfill), lambda run: (run.status.backfill or run.status).succeeded == 1)
    assert await names(api, schedule) == NAMES[:1]
    await edit(api, backfill, suspend=False)
    await until(lambda: names(api, schedule), lambda found: len(found) == 2)
    await api.patch(
        RUNS, namespace, "march", {"metadata": {"annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}}
    )
    await until(lambda: read(api, backfill), lambda run: run.status.is_terminal)
    status = (await read(api, backfill)).status
    assert (status.phase, status.reason) == ("Failed", "Cancelled")
    child = parse_run(await api.get(RUNS, namespace, NAMES[1]))
    assert (child.status.phase, child.status.reason) == ("Failed", "Cancelled")
    assert "1 succeeded, 1 failed" in (status.message or "")


async def test_a_lost_workflow_costs_no_run_and_repeats_none(
    api: KubeClient, schedule: InferenceRun, until: Until, temporal: Client
) -> None:
    namespace = schedule.metadata.namespace
    backfill = await start(api, schedule, concurrency=2)
    await until(lambda: names(api, schedule), lambda found: len(found) == 2)
    before = {item["metadata"]["uid"] for item in await children(api, schedule)}
    await temporal.get_workflow_handle(run_workflow_id(backfill.ref)).terminate(reason="test")
    await end(api, namespace, NAMES[0], SUCCEEDED)
    await api.patch(RUNS, namespace, "march", {"metadata": {"annotations": {"touched": "true"}}})
    for name in NAMES[1:]:
        await until(lambda: names(api, schedule), lambda found, name=name: name in found)
        await end(api, namespace, name, SUCCEEDED)
    await until(lambda: read(api, backfill), lambda run: run.status.is_terminal)
    status = (await read(api, backfill)).status
    assert (status.phase, status.message) == ("Succeeded", "4 scheduled times: 4 succeeded")
    assert before <= {item["metadata"]["uid"] for item in await children(api, schedule)}


async def test_a_schedule_that_does_not_exist_is_waited_for(
    api: KubeClient, namespace: str, shim: Shim, until: Until
) -> None:
    assert shim.is_ready
    backfill = await apply(api, namespace, "march", {"backfill": {"schedule": "nightyl", **DAYS}})
    await until(lambda: read(api, backfill), lambda run: run.status.reason == "ScheduleNotFound")
    assert "'nightyl' does not exist" in ((await read(api, backfill)).status.message or "")


async def test_the_client_back_fills_a_period_and_repeats_one_time(
    api: KubeClient, schedule: InferenceRun, until: Until, plane: ControlPlane
) -> None:
    namespace = schedule.metadata.namespace
    async with await AsyncClient.connect(namespace=namespace, kubeconfig=plane.kubeconfig) as client:
        first, last = parse("2026-03-01T02:00:00Z"), parse("2026-03-02T02:00:00Z")
        started = await client.backfill("nightly", start=first, end=last, concurrency=2)
        await until(lambda: names(api, schedule), lambda found: len(found) == 2)
        assert await names(api, schedule) == NAMES[:2]
        for name in NAMES[:2]:
            await end(api, namespace, name, SUCCEEDED)
        assert (await client.wait(started)).message == "2 scheduled times: 2 succeeded"
        before = (await client.get(NAMES[1])).metadata.uid
        repeated = await client.trigger("nightly", at=last)
        await until(lambda: names(api, schedule))

        async def uid() -> str:
            found = {item["metadata"]["name"]: item["metadata"]["uid"] for item in await children(api, schedule)}
            return str(found.get(NAMES[1], before))

        await until(uid, lambda found: found != before)
        await end(api, namespace, NAMES[1], SUCCEEDED)
        assert (await client.wait(repeated)).phase == "Succeeded"
        with pytest.raises(InvalidRequest, match="is not a time of schedule"):
            await client.trigger("nightly", at=parse("2026-03-02T03:00:00Z"))
        with pytest.raises(InvalidRequest, match="is not a schedule"):
            await client.backfill(NAMES[0], start=first, end=last)
        with pytest.raises(InvalidRequest, match="concurrency"):
            await client.backfill("nightly", start=first, end=last, concurrency=0)
        with pytest.raises(InvalidRequest, match=r"end"):
            await client.backfill("nightly", start=last, end=first)

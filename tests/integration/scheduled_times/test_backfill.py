"""A back-fill starts the runs of a schedule for past times: each once, a few at a time, whatever
happens to its workflow."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
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
from inferrun.resources.status import BackfillStatus, InferenceRunStatus
from inferrun.timestamps import parse
from operator_shim.shim import Shim
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.runs import edit, read
from tests.integration.waiting import until
from worker.composition import WorkerProcess

SUCCEEDED = {"phase": "Succeeded", "reason": "Succeeded", "completionTime": "2026-11-21T08:00:00Z"}
FAILED = {"phase": "Failed", "reason": "InputFailed", "completionTime": "2026-11-21T08:00:00Z"}
DAYS = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-04T23:59:59Z"}
NAMES = [f"nightly-202603{day:02}020000" for day in (1, 2, 3, 4)]

Given = dict[str, Any]  # JSON of a spec


@pytest.fixture
async def shim(served: WorkerProcess, start_shim: StartShim) -> AsyncIterator[Shim]:
    assert served.is_ready
    async with start_shim() as started:
        yield started


@dataclass(frozen=True)
class Nightly:
    """A schedule that is suspended, and the runs for its past times."""

    api: KubeClient
    namespace: str
    uid: str

    async def apply(self, name: str, spec: Given) -> InferenceRun:
        return await apply(self.api, self.namespace, name, spec)

    async def back_fill(
        self, name: str = "march", *, suspend: bool = False, **more: Any
    ) -> InferenceRun:
        given = {"schedule": "nightly", **DAYS, **more}
        return await self.apply(name, {"backfill": given, **({"suspend": True} if suspend else {})})

    async def children(self) -> dict[str, str]:
        """The names of its runs, in their order, with the UIDs."""
        selector = f"{wellknown.LABEL_SCHEDULE_UID}={self.uid}"
        items = (await self.api.list(RUNS, self.namespace, labelSelector=selector))["items"]
        return dict(sorted((item["metadata"]["name"], item["metadata"]["uid"]) for item in items))

    async def has_runs(self, count: int) -> list[str]:
        """The names of its runs, once it has so many."""
        await until(self.children, lambda found: len(found) == count)
        return list(await self.children())

    async def has_run(self, name: str) -> None:
        """Wait until it has that run."""
        await until(self.children, lambda found: name in found)

    async def end(self, name: str, status: Object | None = None) -> None:
        await self.api.patch(
            RUNS, self.namespace, name, {"status": status or SUCCEEDED}, sub="status"
        )

    async def annotate(self, name: str, **annotations: str) -> None:
        await self.api.patch(RUNS, self.namespace, name, {"metadata": {"annotations": annotations}})

    async def run(self, name: str) -> InferenceRun:
        return parse_run(await self.api.get(RUNS, self.namespace, name))

    async def status(
        self, backfill: InferenceRun, is_so: Callable[[InferenceRunStatus], object]
    ) -> InferenceRunStatus:
        """The status of the back-fill, once it is so."""
        await until(lambda: read(self.api, backfill), lambda run: is_so(run.status))
        return (await read(self.api, backfill)).status

    async def ended(self, backfill: InferenceRun) -> InferenceRunStatus:
        """The status of the back-fill, once it has ended."""
        return await self.status(backfill, lambda status: status.is_terminal)


async def apply(api: KubeClient, namespace: str, name: str, spec: Given) -> InferenceRun:
    body = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    return parse_run(await api.create(RUNS, namespace, body))


async def create_nightly(api: KubeClient, namespace: str) -> Nightly:
    spec = {"configRef": {"name": "absent"}, "schedule": "0 2 * * *", "suspend": True}
    return Nightly(api, namespace, (await apply(api, namespace, "nightly", spec)).metadata.uid)


@pytest.fixture
async def nightly(api: KubeClient, namespace: str, shim: Shim) -> Nightly:
    assert shim.is_ready
    return await create_nightly(api, namespace)


async def test_its_runs_are_started_one_after_the_other_and_counted(nightly: Nightly) -> None:
    backfill = await nightly.back_fill()
    for number, name in enumerate(NAMES):
        assert await nightly.has_runs(number + 1) == NAMES[: number + 1]
        await nightly.end(name, FAILED if number == 2 else SUCCEEDED)
    ended = await nightly.ended(backfill)
    assert (ended.phase, ended.reason) == ("Failed", "BackfillFailed")
    assert ended.message == f"4 scheduled times: 3 succeeded, 1 failed ({NAMES[2]})"
    assert ended.backfill == BackfillStatus(total=4, succeeded=3, failed=1)
    child = await nightly.run(NAMES[0])
    assert child.metadata.annotations[wellknown.ANNOTATION_SCHEDULED_TIME] == "2026-03-01T02:00:00Z"
    assert child.metadata.annotations[wellknown.ANNOTATION_BACKFILL] == "march"
    assert child.metadata.owner_references[0].name == "nightly"


async def test_times_that_have_a_run_are_skipped_and_the_newest_is_first(nightly: Nightly) -> None:
    first = await nightly.back_fill(end="2026-03-01T23:00:00Z")
    await until(nightly.children)
    await nightly.end(NAMES[0])
    await nightly.ended(first)
    second = await nightly.back_fill("again", concurrency=2, order="Descending")
    assert await nightly.has_runs(3) == [NAMES[0], NAMES[2], NAMES[3]]
    await nightly.status(second, lambda status: status.phase == "Running")
    for name in (NAMES[3], NAMES[2]):
        await nightly.end(name)
    await nightly.has_runs(4)
    await nightly.end(NAMES[1])
    assert (await nightly.ended(second)).message == "4 scheduled times: 3 succeeded, 1 skipped"


async def test_a_run_that_ended_before_its_start_was_recorded_counts_as_started(
    nightly: Nightly,
) -> None:
    """The worker died after it had created the run."""
    backfill = await nightly.back_fill(suspend=True, end="2026-03-01T23:00:00Z")
    labels = {
        wellknown.LABEL_BACKFILL: backfill.metadata.uid,
        wellknown.LABEL_SCHEDULE_UID: nightly.uid,
    }
    await nightly.apply(NAMES[0], {"configRef": {"name": "absent"}})
    await nightly.api.patch(RUNS, nightly.namespace, NAMES[0], {"metadata": {"labels": labels}})
    await nightly.end(NAMES[0])
    await edit(nightly.api, backfill, suspend=False)
    ended = await nightly.ended(backfill)
    assert ended.backfill == BackfillStatus(total=1, succeeded=1)
    assert ended.start_time is not None


async def test_a_run_that_ends_while_no_shim_runs_is_counted(
    api: KubeClient, namespace: str, served: WorkerProcess, start_shim: StartShim
) -> None:
    assert served.is_ready
    async with start_shim():
        nightly = await create_nightly(api, namespace)
        # listed after its runs
        backfill = await nightly.back_fill("past", end="2026-03-01T23:00:00Z")
        await nightly.status(backfill, lambda status: status.phase == "Running")
        assert list(await nightly.children()) == NAMES[:1]
    await nightly.end(NAMES[0])
    async with start_shim():
        assert (await nightly.ended(backfill)).backfill == BackfillStatus(total=1, succeeded=1)


async def test_it_is_suspended_resumed_and_cancelled(nightly: Nightly) -> None:
    backfill = await nightly.back_fill()
    await until(nightly.children)
    await edit(nightly.api, backfill, suspend=True)
    await nightly.status(backfill, lambda status: status.phase == "Suspended")
    await nightly.end(NAMES[0])
    await nightly.status(
        backfill, lambda status: status.backfill and status.backfill.succeeded == 1
    )
    assert list(await nightly.children()) == NAMES[:1]
    await edit(nightly.api, backfill, suspend=False)
    await nightly.has_runs(2)
    await nightly.annotate("march", **{wellknown.ANNOTATION_CANCEL_REQUESTED: "true"})
    status = await nightly.ended(backfill)
    assert (status.phase, status.reason) == ("Failed", "Cancelled")
    child = await nightly.run(NAMES[1])
    assert (child.status.phase, child.status.reason) == ("Failed", "Cancelled")
    assert "1 succeeded, 1 failed" in (status.message or "")


async def test_a_lost_workflow_costs_no_run_and_repeats_none(
    nightly: Nightly, temporal: Client
) -> None:
    backfill = await nightly.back_fill(concurrency=2)
    await nightly.has_runs(2)
    before = set((await nightly.children()).values())
    await temporal.get_workflow_handle(run_workflow_id(backfill.ref)).terminate(reason="test")
    await nightly.end(NAMES[0])
    await nightly.annotate("march", touched="true")
    for name in NAMES[1:]:
        await nightly.has_run(name)
        await nightly.end(name)
    status = await nightly.ended(backfill)
    assert (status.phase, status.message) == ("Succeeded", "4 scheduled times: 4 succeeded")
    assert before <= set((await nightly.children()).values())


async def test_a_schedule_that_does_not_exist_is_waited_for(
    api: KubeClient, namespace: str, shim: Shim
) -> None:
    assert shim.is_ready
    backfill = await apply(api, namespace, "march", {"backfill": {"schedule": "nightyl", **DAYS}})
    await until(lambda: read(api, backfill), lambda run: run.status.reason == "ScheduleNotFound")
    assert "'nightyl' does not exist" in ((await read(api, backfill)).status.message or "")


async def test_the_client_back_fills_a_period_and_repeats_one_time(
    nightly: Nightly, plane: ControlPlane
) -> None:
    async with await AsyncClient.connect(
        namespace=nightly.namespace, kubeconfig=plane.kubeconfig
    ) as client:
        first, last = parse("2026-03-01T02:00:00Z"), parse("2026-03-02T02:00:00Z")
        started = await client.backfill("nightly", start=first, end=last, concurrency=2)
        assert await nightly.has_runs(2) == NAMES[:2]
        for name in NAMES[:2]:
            await nightly.end(name)
        assert (await client.wait(started)).message == "2 scheduled times: 2 succeeded"
        before = (await client.get(NAMES[1])).metadata.uid
        repeated = await client.trigger("nightly", at=last)
        await until(nightly.children)

        await until(nightly.children, lambda found: found.get(NAMES[1], before) != before)
        await nightly.end(NAMES[1])
        assert (await client.wait(repeated)).phase == "Succeeded"
        with pytest.raises(InvalidRequest, match="is not a time of schedule"):
            await client.trigger("nightly", at=parse("2026-03-02T03:00:00Z"))
        with pytest.raises(InvalidRequest, match="is not a schedule"):
            await client.backfill(NAMES[0], start=first, end=last)
        with pytest.raises(InvalidRequest, match="concurrency"):
            await client.backfill("nightly", start=first, end=last, concurrency=0)
        with pytest.raises(InvalidRequest, match=r"end"):
            await client.backfill("nightly", start=last, end=first)

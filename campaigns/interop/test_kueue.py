"""Runs in the queues of the real Kueue: shim, worker, API server, Job controller and Kueue are
real, and the node is played."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from campaigns.faults.duplicates import SeenPod
from campaigns.faults.node import Container, verifies
from campaigns.faults.scenarios import behaviour_of, success_message
from campaigns.faults.users import create_config, create_run, delete
from campaigns.faults.world import World, until, world
from campaigns.interop.kueue_controller import WORKLOADS, create, create_queue, kueue
from control.informer import Informer, Key
from inferrun.kube.objects import JOBS, RUNS, Object, Resource
from inferrun.launches.manifests import NOT_STARTED
from inferrun.reasons import Reason
from tests.integration.control.proxy import QUEUE_LABEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACE = "queues"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "priorityclasses")
SECONDS = 120.0


@dataclass
class Queues:
    """An installation of the product beside Kueue, and all versions of its Jobs and of Kueue's
    Workloads, in order."""

    world: World
    jobs: list[Object] = field(default_factory=list)
    workloads: list[Object] = field(default_factory=list)

    def see_job(self, _key: Key, _before: Object | None, after: Object | None) -> None:
        self.jobs += [after] if after is not None else []

    def see_workload(self, _key: Key, _before: Object | None, after: Object | None) -> None:
        self.workloads += [after] if after is not None else []

    async def run(
        self, name: str, *, queue: str = "", priority: str = "", config: str = "iris", **spec: Any
    ) -> None:
        """Create a run; `spec` has further fields of its spec."""
        labels = {QUEUE_LABEL: queue, PRIORITY_LABEL: priority}
        metadata = {"labels": {key: value for key, value in labels.items() if value}}
        await create_run(self.world.api, NAMESPACE, name, config=config, metadata=metadata, **spec)

    def status(self, name: str) -> Object:
        found: Object = self.world.recorder.run_named(NAMESPACE, name) or {}
        status: Object = found.get("status") or {}
        return status

    async def until(self, name: str, phase: str, reason: str = "") -> Object:
        """Wait until the run is in that phase, for that reason if one is given."""

        def is_so() -> bool:
            status = self.status(name)
            return status.get("phase") == phase and reason in ("", status.get("reason"))

        await until(
            f"{name} is {phase} {reason}", is_so, seconds=SECONDS, now=lambda: self.status(name)
        )
        return self.status(name)

    async def finish(self, name: str) -> Object:
        """Let the run's containers end."""
        await self.world.node.release(name)
        return await self.until(name, "Succeeded")

    async def until_no_workload(self, name: str) -> None:
        """Wait until Kueue has forgotten the Jobs of a run."""

        async def is_forgotten() -> bool:
            items = (await self.world.api.list(WORKLOADS, NAMESPACE))["items"]
            return not any(name in item["metadata"]["name"] for item in items)

        assert any(name in item["metadata"]["name"] for item in self.workloads)
        await until(f"no Workload of {name} is left", is_forgotten, seconds=SECONDS)

    def pods(self, name: str) -> list[SeenPod]:
        """The Pods that a run has had, oldest first."""
        seen = self.world.recorder.traces(name.partition("-")[0]).seen_pods
        return sorted(seen.values(), key=lambda pod: pod.created)


def behave(run: str, launch: int, is_verifying: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    if "unreadable" in run:
        return behaviour_of(run, launch, is_verifying)
    return Container(message=success_message(), ends_after=None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def queues(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Queues]:
    folder = tmp_path_factory.mktemp("queues")
    (folder / "defaults").mkdir()
    (folder / "defaults" / "propagatedLabels").write_text(f"{QUEUE_LABEL},{PRIORITY_LABEL}")
    (folder / "defaults" / "allowedPriorityClasses").write_text("urgent-pods")
    async with (
        world(folder, behave=behave) as ground,
        kueue(ground.plane, ground.api),
        ground.installation(NAMESPACE),
    ):
        made = Queues(ground)
        await create_config(ground.api, NAMESPACE, "iris")
        await create_config(ground.api, NAMESPACE, "urgent", priorityClassName="urgent-pods")
        await ground.api.create(
            PRIORITY_CLASSES, None, {"metadata": {"name": "urgent-pods"}, "value": 1000}
        )
        await create(ground.api, "WorkloadPriorityClass", "urgent", value=1000)
        jobs = Informer(ground.api, JOBS, namespace=NAMESPACE, listener=made.see_job)
        workloads = Informer(ground.api, WORKLOADS, namespace=NAMESPACE, listener=made.see_workload)
        tasks = [asyncio.create_task(one.run()) for one in (jobs, workloads)]
        yield made
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_run_without_a_queue_starts_at_once(queues: Queues) -> None:
    """Kueue rejects some changes of a Job that it does not queue. The namespace has no default
    queue yet."""
    await queues.run("c00011q-free")
    await queues.until("c00011q-free", "Running")
    await queues.finish("c00011q-free")
    assert not any("c00011q" in one["metadata"]["name"] for one in queues.workloads)


async def test_runs_share_a_quota_of_one_pod(queues: Queues) -> None:
    await create_queue(queues.world.api, NAMESPACE, "single", pods=1)
    await queues.run("c00001q-first", queue="single")
    await queues.until("c00001q-first", "Running")
    await queues.run("c00002q-second", queue="single")
    waiting = await queues.until("c00002q-second", "Pending", Reason.QUEUED)
    assert "is suspended" in waiting["message"]
    await queues.finish("c00001q-first")
    await queues.until("c00002q-second", "Running")
    await queues.finish("c00002q-second")
    [first], [second] = queues.pods("c00001q-first"), queues.pods("c00002q-second")
    assert first.ended is not None
    assert first.ended <= second.created


async def test_the_shards_of_a_run_are_admitted_together(queues: Queues) -> None:
    await create_queue(queues.world.api, NAMESPACE, "pair", pods=2)
    await queues.run("c00012q-single", queue="pair")
    await queues.until("c00012q-single", "Running")
    await queues.run("c00013q-divided", queue="pair", shards=2)
    await queues.until("c00013q-divided", "Pending", Reason.QUEUED)
    await queues.finish("c00012q-single")
    await queues.until("c00013q-divided", "Running")
    await queues.finish("c00013q-divided")
    [single], divided = queues.pods("c00012q-single"), queues.pods("c00013q-divided")
    assert single.ended is not None
    assert [single.ended <= pod.created for pod in divided] == [True, True]


@pytest.mark.parametrize(
    ("number", "urgent"),
    [(3, {"priority": "urgent"}), (5, {"config": "urgent"})],
    ids=["label", "priority-class"],
)
async def test_a_preempted_run_queues_again_and_continues(
    queues: Queues, number: int, urgent: dict[str, str]
) -> None:
    queue, low, high = f"preempting-{number}", f"c0000{number}q-low", f"c0000{number + 1}q-high"
    await create_queue(queues.world.api, NAMESPACE, queue, pods=1)
    await queues.run(low, queue=queue)
    await queues.until(low, "Running")
    await queues.run(high, queue=queue, **urgent)
    preempted = await queues.until(low, "Pending", Reason.QUEUED)
    assert [one["replaced"] for one in preempted["attempts"]] == [True]
    assert preempted["attempt"] == 1
    await queues.until(high, "Running")
    await queues.finish(high)
    await queues.until(low, "Running")
    ended = await queues.finish(low)
    assert (ended["attempt"], ended["jobStatus"]) == (1, preempted["jobStatus"])
    traces = queues.world.recorder.traces(low.partition("-")[0])
    [terminal] = traces.terminal.values()
    assert (len(traces.seen_jobs), len(traces.seen_pods), len(terminal)) == (1, 2, 1)


async def test_runs_without_a_label_are_in_the_default_queue(queues: Queues) -> None:
    await create_queue(queues.world.api, NAMESPACE, "default", pods=1)
    first, second = "c00007q-unreadable", "c00008q-second"
    await queues.run(second)
    await queues.until(second, "Running")
    await queues.run(first)
    await queues.until(first, "Pending", Reason.QUEUED)
    await queues.finish(second)
    await queues.until(first, "Succeeded")
    jobs = [job for job in queues.jobs if first in job["metadata"]["name"]]
    for what in (False, True):
        [*states] = dict.fromkeys(
            (
                job["metadata"]["labels"][QUEUE_LABEL],
                job["spec"]["parallelism"],
                job["spec"]["suspend"],
            )
            for job in jobs
            if verifies(job) == what
        )
        assert states == [
            ("default", NOT_STARTED, True),
            ("default", 1, True),
            ("default", 1, False),
        ]
    pods = sorted((*queues.pods(first), *queues.pods(second)), key=lambda pod: pod.created)
    assert len(pods) == 3
    assert all((one.ended or one.created) <= other.created for one, other in pairwise(pods))


async def test_a_run_that_is_never_admitted_ends_with_its_pending_time(queues: Queues) -> None:
    await create_queue(queues.world.api, NAMESPACE, "full", pods=0)
    await queues.run("c00009q-late", queue="full", pendingTimeoutSeconds=5)
    await queues.until("c00009q-late", "Failed", Reason.PENDING_TIMEOUT)
    await queues.until_no_workload("c00009q-late")
    assert queues.pods("c00009q-late") == []


async def test_a_queued_run_that_is_suspended_or_deleted_leaves_its_queue(queues: Queues) -> None:
    await create_queue(queues.world.api, NAMESPACE, "closed", pods=0)
    name = "c00010q-withdrawn"
    await queues.run(name, queue="closed")
    await queues.until(name, "Pending", Reason.QUEUED)
    await queues.world.api.patch(RUNS, NAMESPACE, name, {"spec": {"suspend": True}})
    await queues.until(name, "Suspended")
    await queues.until_no_workload(name)
    await queues.world.api.patch(RUNS, NAMESPACE, name, {"spec": {"suspend": False}})
    await queues.until(name, "Pending", Reason.QUEUED)
    await delete(queues.world.api, RUNS, NAMESPACE, name)
    await queues.until_no_workload(name)


async def test_kueue_admits_no_job_before_it_is_started(queues: Queues) -> None:
    """It would hold no quota, and its Pod would start outside of it."""
    admitted = [one for one in queues.workloads if (one.get("status") or {}).get("admission")]
    sets = [
        one for workload in admitted for one in workload["status"]["admission"]["podSetAssignments"]
    ]
    assert sets
    assert [one for one in sets if one["count"] == NOT_STARTED] == []

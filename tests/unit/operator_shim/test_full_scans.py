"""What happens to one object costs the same beside thousands of finished runs: the shim reads only
the runs concerned."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from control.cluster.events import EventRecorder
from control.metrics import Metrics
from inferrun import wellknown
from inferrun.kube.namespaces import ALL
from inferrun.kube.objects import CONFIGS, EVENTS, RUNS, Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from operator_shim.run_plan import News
from operator_shim.run_watch import RunWatch
from operator_shim.schedule_spec import RunSchedule
from operator_shim.shim import Shim
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import KeptSchedule, TemporalSchedules
from operator_shim.workflows import RunWorkflows
from tests.unit.objects import Json
from tests.unit.operator_shim.collections import Collections
from tests.unit.operator_shim.shown_runs import NotedLoop

FINISHED = 5_000
CONFIG_COUNT = 20
IN_TIME = 60


class Noted(dict[str, Any]):  # Any: JSON
    """A part of a run, which notes how often the run was read."""

    def __init__(self, values: Json, *, name: str, reads: Counter[str]) -> None:
        super().__init__(values)
        self._name, self._reads = name, reads

    def __getitem__(self, key: str) -> Any:
        self._reads[self._name] += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._reads[self._name] += 1
        return super().get(key, default)


class Cluster(Collections):
    """Keeps the patches and the messages of the Events that are created."""

    def __init__(self, runs: Iterable[Object], configs: Iterable[Object]) -> None:
        super().__init__(inferenceruns=runs, inferenceconfigs=configs)
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.patches: asyncio.Queue[Object] = asyncio.Queue()

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        if resource == EVENTS:
            self.events.put_nowait(body["message"])
        return body

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        self.patches.put_nowait(body)
        return {
            **body,
            "metadata": {**body["metadata"], "namespace": namespace, "name": name},
            "spec": {"configRef": {"name": "a"}},
        }


class NotedSchedules(TemporalSchedules):
    """Notes which schedules were reconciled; there are two, one of an earlier run of the same
    name."""

    def __init__(self) -> None:
        self.reconciled: asyncio.Queue[str] = asyncio.Queue()

    async def ensure(self, wanted: RunSchedule, *, config: str) -> KeptSchedule:
        self.reconciled.put_nowait(wanted.run.name)
        return KeptSchedule((), None)

    async def list_owned(self) -> list[RunRef]:
        return [
            RunRef(namespace="team", name="open", uid=uid) for uid in ("uid-open", "uid-earlier")
        ]


class IdleWorkflows(RunWorkflows):
    """No run has a workflow, and none can be started."""

    def __init__(self) -> None:
        self.rechecked: asyncio.Queue[str] = asyncio.Queue()

    async def ensure(self, run: InferenceRun, *, is_new: bool = False) -> None:
        pass

    async def list_open(self) -> list[RunRef]:
        return [RunRef(namespace="team", name="open", uid="uid-open")]

    async def list_terminated(self, *, since: datetime) -> list[RunRef]:
        return await self.list_open()

    async def list_paused(self) -> list[RunRef]:
        return []

    async def count_open(self) -> int:
        return 0

    async def find_open(self, run: RunRef) -> None:
        pass

    async def recheck(self, run: RunRef) -> None:
        self.rechecked.put_nowait(run.name)


def stored(
    name: str,
    *,
    namespace: str = "team",
    spec: Json,
    status: Json,
    owner: str = "",
    version: int = 1,
) -> Json:
    kind = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND}
    owners = [{**kind, "name": owner, "uid": f"uid-{owner}"}] if owner else []
    return {
        **kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-11-21T07:00:00Z",
            "ownerReferences": owners,
            "labels": {wellknown.LABEL_SCHEDULE_UID: f"uid-{owner}"} if owner else {},
            "annotations": {wellknown.ANNOTATION_STARTED_AS: f"uid-{name}"}
            if "configRef" in spec
            else {},
        },
        "spec": spec,
        "status": status,
    }


def config(number: int, *, generation: int, version: int) -> Json:
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.CONFIG_KIND,
        "metadata": {
            "name": f"config-{number}",
            "namespace": "team",
            "uid": f"uid-config-{number}",
            "resourceVersion": str(version),
            "generation": generation,
        },
        "spec": {
            "kserve": {"modelName": "iris", "modelUrl": "iris.models"},
            "storage": {"input": {}, "output": {}},
        },
        "status": {"observedGeneration": 1},
    }


# Any: JSON
def run_of(reads: Counter[str], number: int, name: str, *, phase: str, **more: Any) -> Json:
    """A run with that config; it notes its reads, also in the form that the shim's cache keeps of
    it."""
    reference = Noted({"name": f"config-{number % CONFIG_COUNT}"}, name=name, reads=reads)
    reason = "ConfigNotFound" if phase == "Pending" else phase
    status = {"phase": phase, "reason": reason, "observedGeneration": 1, **more.pop("status", {})}
    return Noted(
        stored(name, spec={"configRef": reference}, status=status, **more), name=name, reads=reads
    )


def finished_runs(reads: Counter[str]) -> list[Json]:
    return [
        run_of(
            reads,
            number,
            f"finished-{number}",
            phase="Succeeded",
            owner="old" if number % 2 else "",
        )
        for number in range(FINISHED)
    ]


@asynccontextmanager
async def shim_beside_finished_runs(
    reads: Counter[str], *others: Json
) -> AsyncIterator[tuple[Cluster, NotedSchedules, IdleWorkflows]]:
    """A shim that has listed `others` and many finished runs, of all configs and of all schedules;
    nothing was read since."""
    cluster = Cluster(
        [*finished_runs(reads), *others],
        [config(number, generation=1, version=1) for number in range(CONFIG_COUNT)],
    )
    schedules, workflows = NotedSchedules(), IdleWorkflows()
    shim = Shim(
        cluster,
        run_watch=RunWatch(cluster, namespaces=ALL),
        workflows=workflows,
        schedules=schedules,
        namespaces=ALL,
        workers=10,
        resync_seconds=1000,
        defaults=Defaults,
        runner_account="",
        events=EventRecorder(cluster, reporter="tests", component="shim"),
        metrics=Metrics(),
        note_pause=lambda _run, _text: None,
    )
    task = asyncio.create_task(shim.run())
    try:
        async with asyncio.timeout(IN_TIME):
            while not shim.is_ready:  # noqa: ASYNC110 -- readiness has no event of its own
                await asyncio.sleep(0)
            yield cluster, schedules, workflows
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_schedule_is_reconciled_without_reading_the_runs_of_others() -> None:
    reads: Counter[str] = Counter()
    nightly = stored(
        "nightly",
        spec={"schedule": "@daily", "configRef": {"name": "config-1"}},
        status={"phase": "Scheduled", "observedGeneration": 1},
    )
    child = run_of(reads, 1, "nightly-1", phase="Running", owner="nightly")
    async with shim_beside_finished_runs(reads, nightly, child) as (cluster, schedules, _):
        while await schedules.reconciled.get() != "nightly":
            pass
        reads.clear()
        at = "2026-11-21T08:00:00Z"
        ended = run_of(
            reads,
            1,
            "nightly-1",
            phase="Succeeded",
            owner="nightly",
            version=2,
            status={"completionTime": at},
        )
        cluster.change(RUNS, ended)
        assert await schedules.reconciled.get() == "nightly"
        while not (body := await cluster.patches.get()).get("status", {}).get("lastSuccessfulTime"):
            pass
        assert body["status"]["lastSuccessfulTime"] == at
        assert set(reads) == {"nightly-1"}


async def test_the_edit_of_a_config_reads_only_the_unfinished_runs_that_use_it() -> None:
    reads: Counter[str] = Counter()
    started = run_of(reads, 3, "started", phase="Running", status={"contract": "e30="})
    waiting = run_of(reads, 3, "waiting", phase="Pending")
    elsewhere = run_of(reads, 3, "elsewhere", phase="Pending", namespace="other")
    async with shim_beside_finished_runs(reads, started, waiting, elsewhere) as (
        cluster,
        _,
        workflows,
    ):
        assert {await workflows.rechecked.get(), await workflows.rechecked.get()} == {
            "waiting",
            "elsewhere",
        }
        reads.clear()
        cluster.change(CONFIGS, config(3, generation=2, version=2))
        assert await workflows.rechecked.get() == "waiting"
        notice = await cluster.events.get()
        assert (
            "does not affect 1 run in progress, which keep what they started with: started;"
            in notice
        )
        assert set(reads) <= {"started", "waiting"}


async def test_a_sweep_reads_only_the_unfinished_runs() -> None:
    reads: Counter[str] = Counter()
    cluster = Cluster([*finished_runs(reads), run_of(reads, 1, "open", phase="Running")], [])
    watch = RunWatch(cluster, namespaces=ALL)
    task = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(watch.synced(), IN_TIME)
        reads.clear()
        loop = NotedLoop()
        sweep = Sweep(
            RunStore(cluster),
            loop,
            IdleWorkflows(),
            NotedSchedules(),
            watch=watch,
            namespaces=ALL,
            note_pause=lambda _run, _text: None,
        )
        now = datetime.now(UTC)
        await sweep.restart_terminated(since=now)
        await sweep.restart_missing(created_before=now)
        await sweep.sweep()
        assert loop.heard == [("uid-open", News.LOST), ("uid-earlier", News.SCHEDULE_LEFT)]
        assert set(reads) == {"open"}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

"""A shim process that leads, as the tests of the observer see it, and a Temporal that accepts every
signal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from control.cluster.events import EventRecorder
from control.leases import LeaderElection
from control.metrics import Metrics
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from operator_shim.observer.cluster_jobs import ClusterJobs
from operator_shim.observer.observer import Observer
from operator_shim.observer.run_signals import RunSignals
from operator_shim.observer.status_writer import StatusWriter
from operator_shim.observer.workload_watch import WorkloadWatch
from operator_shim.run_watch import RunWatch
from tests.integration.control.pods import Launched
from tests.integration.waiting import WAIT_SECONDS, eventually
from tests.unit.launches import SHIM_KEY
from tests.unit.operator_shim.shown_runs import NotedLoop
from workflows.signals import Ended, Started

NODE_LOST_SECONDS = 10


@dataclass
class RecordedSignals(RunSignals):
    """Plays Temporal: every signal is accepted."""

    started_by_job: list[Started] = field(default_factory=list)
    ended_by_job: list[Ended] = field(default_factory=list)
    loop: NotedLoop = field(default_factory=NotedLoop)

    @property
    def woken(self) -> list[str]:
        """The UIDs of the runs that look again."""
        return [uid for uid, _ in self.loop.heard]

    async def started(self, run: RunRef, signal: Started) -> bool:
        assert run.uid
        self.started_by_job.append(signal)
        return True

    async def ended(self, run: RunRef, signal: Ended, *, is_repeated: bool) -> bool:
        assert run.uid
        signal = signal.model_copy(update={"ends": ""})
        assert not is_repeated or signal in self.ended_by_job
        self.ended_by_job.append(signal)
        return True

    async def has_ended(self, launch: Launched, *, times: int = 1) -> Ended:
        async def look() -> Ended | None:
            return nth(self.ended_by_job, launch, times)

        return await eventually(look, what=f"ended, {times} times")

    async def has_started(self, launch: Launched, *, times: int = 1) -> Started:
        async def look() -> Started | None:
            return nth(self.started_by_job, launch, times)

        return await eventually(look, what=f"started, {times} times")


S = TypeVar("S", Started, Ended)


def nth(sent: list[S], launch: Launched, times: int) -> S | None:
    """The signal number `times` about the launch."""
    about = [signal for signal in sent if signal.job_uid == launch.result.job_uid]
    return about[times - 1] if len(about) >= times else None


class AlwaysLeader(LeaderElection):
    """An election with one candidate."""

    def __init__(self) -> None:
        pass

    async def while_leading(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()


@asynccontextmanager
async def leading(
    api: KubeClient,
    namespace: str,
    installation: str,
    signals: RecordedSignals,
    *,
    identity: str = "",
) -> AsyncIterator[WorkloadWatch]:
    """A worker process that leads, or one with an identity that takes part in an election; the next
    one knows nothing of it.
    """
    election = LeaderElection(api, namespace=namespace, name="observer", identity=identity)
    runs = RunStore(api)
    namespaces = Namespaces((namespace,))
    run_watch = RunWatch(api, namespaces=namespaces)
    watch = WorkloadWatch(api, runs=run_watch, namespaces=namespaces, installation=installation)
    writer = StatusWriter(runs, events=EventRecorder(api, reporter="tests"))
    observer = Observer(
        api,
        signals.loop,
        watch=watch,
        leadership=election if identity else AlwaysLeader(),
        signals=signals,
        writer=writer,
        jobs=ClusterJobs(api, installation=installation, defaults=Defaults),
        defaults=lambda: Defaults(node_lost_seconds=NODE_LOST_SECONDS),
        key=SHIM_KEY,
        metrics=Metrics(),
    )
    tasks = [
        asyncio.create_task(run_watch.run()),
        asyncio.create_task(watch.run()),
        asyncio.create_task(observer.run()),
    ]
    if identity:
        tasks.append(asyncio.create_task(election.run()))
    try:
        await asyncio.wait_for(watch.synced(), WAIT_SECONDS)
        assert watch.is_synced
        yield watch
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

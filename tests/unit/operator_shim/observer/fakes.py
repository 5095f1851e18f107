"""Fakes behind the reconciler's seams: caches that a test fills, and what was signalled, written
and read."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from control.informer import Key
from control.launches.job_state import is_finished
from control.launches.observation import Launch
from control.launches.pod_end import PodEnd
from control.launches.trimming import trim_job, trim_pod
from inferrun import wellknown
from inferrun.kube.objects import Object, controller_of
from inferrun.run_ref import RunRef
from inferrun.runner_report import ProgressLine, RecordCounts
from operator_shim.observer.cluster_jobs import ClusterJobs
from operator_shim.observer.readers import EventReader, LogReader, OnEvents, OnLog
from operator_shim.observer.run_signals import RunSignals
from operator_shim.observer.status_writer import ShownProgress, StatusWriter
from operator_shim.observer.workload_watch import WorkloadWatch
from operator_shim.run_terms import has_ended
from operator_shim.run_watch import trim_run
from tests.unit.objects import Json
from workflows.signals import Ended, Started

IN_TIME = 5


class FakeWorkloads(WorkloadWatch):
    """The caches; a test changes them and wakes the reconciler."""

    def __init__(self) -> None:
        self.jobs: dict[Key, Object] = {}
        self.pods: dict[str, Object] = {}
        self.runs: dict[Key, Object] = {}
        self.ends: list[PodEnd] = []
        self.reads = 0

    def put(
        self, *, job: Json | None = None, pod: Json | None = None, run: Json | None = None
    ) -> None:
        """What the watch delivers."""
        if job is not None and (kept := trim_job(job)) is not None:
            self.jobs[_key(job)] = kept
        if pod is not None:
            self._put_pod(pod)
        if run is not None:
            trimmed = trim_run(run)
            if has_ended(trimmed):
                self.runs.pop(_key(run), None)
            else:
                self.runs[_key(run)] = trimmed

    def _put_pod(self, pod: Json) -> None:
        kept, uid = trim_pod(pod), pod["metadata"]["uid"]
        if kept is not None:
            self.pods[uid] = kept
        elif controller_of(pod) is not None:
            self.pods.pop(uid, None)
            self.ends.append(PodEnd.of_pod(pod))

    def job(self, key: Key) -> Object | None:
        self.reads += 1
        return self.jobs.get(key)

    def run_of(self, ref: RunRef) -> Object | None:
        run = self.runs.get((ref.namespace, ref.name))
        return run if run is not None and run["metadata"]["uid"] == ref.uid else None

    def pods_of(self, job_uid: str) -> tuple[Object, ...]:
        return tuple(pod for pod in self.pods.values() if controller_of(pod) == job_uid)

    def remembered_ends(self, job_uid: str) -> tuple[PodEnd, ...]:
        return tuple(end for end in self.ends if end.job_uid == job_uid)

    def job_keys(self) -> Iterable[Key]:
        return list(self.jobs)

    def all_runs(self) -> list[Object]:
        return list(self.runs.values())


@dataclass
class FakeSignals(RunSignals):
    """What was sent; `accepts` says whether there is a workflow, `is_down` whether Temporal
    answers."""

    accepts: bool = True
    is_down: bool = False
    hangs: bool = False
    sent_started: list[Started] = field(default_factory=list)
    sent_ended: list[Ended] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    addressed: set[RunRef] = field(default_factory=set)

    async def started(self, run: RunRef, signal: Started) -> bool:
        await self._reach(run)
        self.sent_started.append(signal)
        return self.accepts

    async def ended(self, run: RunRef, signal: Ended, *, is_repeated: bool) -> bool:
        await self._reach(run)
        self.sent_ended.append(signal.model_copy(update={"ends": ""}))
        self.ends.append(signal.ends)
        self.repeated.append(is_repeated)
        return self.accepts

    async def _reach(self, run: RunRef) -> None:
        self.addressed.add(run)
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_down:
            raise TimeoutError("Temporal is down")


@dataclass
class FakeWriter(StatusWriter):
    """What was written; it goes to the run in the caches, as the informer would deliver it."""

    workloads: FakeWorkloads
    written: list[ShownProgress] = field(default_factory=list)
    is_delivered: bool = True

    async def write(self, launch: Launch, progress: ShownProgress, *, run: Object) -> None:
        assert launch.run.uid == run["metadata"]["uid"]
        self.written.append(progress)
        if not self.is_delivered:
            return
        status = {
            **run["status"],
            "phase": progress.phase,
            "reason": progress.reason,
            "message": progress.message,
        }
        if progress.report is not None:
            status["records"] = progress.report.records.model_dump(exclude_none=True)
        self.workloads.runs[_key(run)] = {**run, "status": status}


@dataclass
class FakeEvents(EventReader):
    """Answers requests at once."""

    events: tuple[Object, ...] = ()
    requested: list[str] = field(default_factory=list)

    def request(self, key: Key, subject_uid: str, on_events: OnEvents) -> None:
        self.requested.append(subject_uid)
        on_events(key, self.events)


@dataclass
class FakeLogs(LogReader):
    """The logs that are followed: Pod, container, and what is to be called."""

    followed: dict[Key, tuple[str, str, OnLog]] = field(default_factory=dict)

    def follow(self, key: Key, pod_name: str, container: str, on_log: OnLog) -> None:
        self.followed[key] = pod_name, container, on_log

    def forget(self, key: Key) -> None:
        self.followed.pop(key, None)

    def report(self, key: Key, records: RecordCounts, *, note: str = "") -> None:
        """What a log read brings."""
        progress = ProgressLine(records=records, note=note)
        self.followed[key][2](
            key, json.dumps({"event": "progress", **progress.model_dump(mode="json")})
        )


@dataclass
class FakeApiServer(ClusterJobs):
    """Answers the question whether a Job exists, and notes what is done with it."""

    jobs: dict[Key, Object] = field(default_factory=dict)
    asked: int = 0
    restored: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)

    async def find(self, launch: Launch) -> Object | None:
        self.asked += 1
        job = self.jobs.get((launch.run.namespace, launch.job_name))
        if (
            job is not None
            and not is_finished(job)
            and wellknown.LABEL_ENDED in job["metadata"]["labels"]
        ):
            self.restored.append(launch.job_uid)
        return job

    async def withdraw(self, launch: Launch) -> None:
        self.withdrawn.append(launch.job_uid)


class FakeTime:
    """Drives an event loop's clock: timers fire when a test says that time has passed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._real = loop.time
        self._offset = 0.0
        loop.time = self.now  # type: ignore[method-assign]  # the loop has no other way to set its clock

    def freeze(self) -> None:
        """From now on, time passes only when the test says so, however slow the machine is."""
        now = self._real()
        self._real = lambda: now

    def now(self) -> float:
        return self._real() + self._offset

    async def pass_by(self, seconds: float, *, step: float = 0.5) -> None:
        """Let so many seconds pass, in steps, and everything happen that is due."""
        left = seconds
        while left > 0:
            self._offset += min(step, left)
            left -= step
            await settle()


async def settle() -> None:
    """Let everything happen that can happen now."""
    for _ in range(40):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], object]) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(IN_TIME):
        while not is_so():  # noqa: ASYNC110 -- what is waited for has no event of its own
            await asyncio.sleep(0)


def _key(item: Object) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["name"]

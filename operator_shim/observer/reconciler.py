"""Plans for each launch whenever something about it has changed, and executes the plans.

A plan reads the caches and makes no request. Commands wait in lanes with workers of their own, so
that a slow Temporal delays no status and a slow API server no signal. A command says that something
is due; what is sent or written is what the memory wants when its turn has come.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from control.informer import Key
from control.launches import job_state
from control.launches.observation import Doing, Launch, is_concluded
from control.launches.pod_end import PodEnd
from control.log_subjects import fields_of_run, log_about
from control.metrics import Metrics
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun.kube.objects import Object, status_of, uid_of
from inferrun.launches.manifests import CONTAINER
from inferrun.run_ref import RunRef
from inferrun.runner_report import ProgressLine, WarmUp, latest_line
from operator_shim.observer.cluster_jobs import ClusterJobs
from operator_shim.observer.plan import NEVER, NO_NEWS, Command, Memory, News, View, plan
from operator_shim.observer.readers import EventReader, LogReader
from operator_shim.observer.run_signals import RunSignals
from operator_shim.observer.status_writer import ShownProgress, StatusWriter
from operator_shim.observer.workload_watch import WorkloadWatch
from workflows.signals import Ended, Started

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 60.0
"""The seconds between two comparisons of the runs' statuses with the Jobs that exist, in case a
change was missed."""

SIGNALS: Final = 50
STATUSES: Final = 20
QUESTIONS: Final = 5
"""Commands of each kind that are executed at a time."""


@dataclass(slots=True)
class _Followed:
    memory: Memory
    news: News = NO_NEWS
    report: ProgressLine | None = None
    warm_up: str = ""
    written: ShownProgress | None = None


class Reconciler:
    """Run it as one task, for as long as this process is the leader."""

    def __init__(
        self,
        workloads: WorkloadWatch,
        *,
        signals: RunSignals,
        writer: StatusWriter,
        events: EventReader,
        logs: LogReader,
        jobs: ClusterJobs,
        node_lost_seconds: Callable[[], int],
        server_time: Callable[[], datetime],
        sign: Callable[[Iterable[PodEnd]], str],
        metrics: Metrics,
        pause_of: Callable[[RunRef], str] = lambda _run: "",
    ) -> None:
        """`sign` writes how Pods have ended in a form that workers trust; `pause_of` is as in the
        watch of workloads."""
        self._workloads = workloads
        self._signals = signals
        self._writer = writer
        self._events = events
        self._logs = logs
        self._jobs = jobs
        self._node_lost_seconds = node_lost_seconds
        self._server_time = server_time
        self._sign = sign
        self._pause_of = pause_of
        self._followed: dict[Key, _Followed] = {}
        self._queue: WorkQueue[Key] = WorkQueue(
            self._plan, workers=1, group=lambda key: key[0], metrics=metrics, name="plans"
        )

        def lane(workers: int, name: str) -> WorkQueue[tuple[Command, Key]]:
            return WorkQueue(
                self._execute,
                workers=workers,
                group=lambda task: task[1][0],
                metrics=metrics,
                name=name,
            )

        questions = lane(QUESTIONS, "questions")
        self._lanes: dict[Command, WorkQueue[tuple[Command, Key]]] = {
            Command.SIGNAL: lane(SIGNALS, "signals"),
            Command.WRITE: lane(STATUSES, "statuses"),
            Command.FIND_JOB: questions,
            Command.WITHDRAW: questions,
        }

    def wake(self, key: Key) -> None:
        """The Job, one of its Pods or its run changed."""
        self._queue.add(key)

    async def run(self) -> None:
        """Plan for everything, then for whatever changes, until cancelled. What has ended while
        nobody acted comes first: of thousands of Jobs, most go on.
        """
        for key in self._workloads.job_keys():
            with surviving("the first look at a Job", about=key):
                job = self._workloads.job(key)
                has_ended = (
                    job is None
                    or job_state.is_finished(job)
                    or not self._workloads.pods_of(uid_of(job))
                )
                self._queue.add(key, background=not has_ended)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run())
            for lane in set(self._lanes.values()):
                tasks.create_task(lane.run())
            tasks.create_task(self._sweep())

    async def _sweep(self) -> None:
        while True:
            with surviving("the comparison of runs with Jobs"):
                for run in self._workloads.all_runs():
                    with surviving("the comparison of a run with its Job", about=run):
                        self._compare(run)
            await asyncio.sleep(SWEEP_SECONDS)

    def _compare(self, run: Object) -> None:
        reference = status_of(run).get("jobStatus")
        if not reference or not reference.get("name"):
            return
        key = run["metadata"]["namespace"], reference["name"]
        job = self._workloads.job(key)
        if job is not None and job["metadata"]["uid"] == reference.get("uid"):
            return
        launch = Launch.of_run(run)
        if launch is not None and key not in self._followed:
            self._followed[key] = _Followed(Memory(launch))
        self._queue.add(key)

    def _follow(self, key: Key, job: Object | None) -> _Followed | None:
        """The launch that matters: of a Job that is gone until its end is acknowledged."""
        known = self._followed.get(key)
        if job is None or (
            known and known.memory.version and known.memory.launch.job_uid == job["metadata"]["uid"]
        ):
            return known
        launch = Launch.of_job(job)
        if launch is None:
            return known
        run = self._workloads.run_of(launch.run)
        named = Launch.of_run(run) if run is not None else None
        is_another = (
            named is not None
            and named.job_name == launch.job_name
            and named.job_uid != launch.job_uid
        )
        if named is not None and is_another and not is_concluded(run, launch=named):
            launch = named
        if known is None or known.memory.launch != launch:
            known = self._followed[key] = _Followed(Memory(launch))
        return known

    async def _plan(self, key: Key) -> None:
        await asyncio.sleep(0)  # thousands of keys may be queued: other tasks get their turn
        job = self._workloads.job(key)
        followed = self._follow(key, job)
        if followed is None:
            return
        memory, news, now = followed.memory, followed.news, asyncio.get_running_loop().time()
        launch = memory.launch
        log_about(fields_of_run(launch.run, attempt=launch.attempt))
        is_there = job is not None and job["metadata"]["uid"] == launch.job_uid
        view = View(
            now=now,
            server_time=self._server_time(),
            job=job if is_there else None,
            pods=self._workloads.pods_of(launch.job_uid),
            ends=self._workloads.remembered_ends(launch.job_uid),
            run=self._workloads.run_of(launch.run),
            node_lost_seconds=self._node_lost_seconds(),
            report=followed.report,
            warm_up=followed.warm_up,
            written=followed.written,
            news=news,
            pause=self._pause_of(launch.run),
        )
        planned = plan(view, memory)
        if planned.memory is None:
            del self._followed[key]
            self._logs.forget(key)
            if job is not None:
                self._queue.add(key)  # another Job of that name
            return
        followed.memory, followed.news = planned.memory, NO_NEWS
        if planned.memory.log != memory.log:
            self._logs.forget(key)
            if planned.memory.log is not None:
                self._logs.follow(key, *planned.memory.log, self._on_log)
        if now < planned.memory.due < NEVER:
            self._queue.add_later(key, planned.memory.due - now)
        for command in planned.commands:
            if command is Command.READ_EVENTS:
                self._events.request(key, planned.subject, self._on_events)
            else:
                self._lanes[command].add((command, key))

    async def _execute(self, task: tuple[Command, Key]) -> None:
        """Execute a command, and plan again with its result. The lane repeats a command that
        fails."""
        command, key = task
        followed = self._followed.get(key)
        if followed is None:
            return
        launch = followed.memory.launch
        log_about(fields_of_run(launch.run, attempt=launch.attempt))
        if command is Command.SIGNAL:
            await self._signal(followed)
        elif command is Command.WRITE:
            progress, run = followed.memory.progress, self._workloads.run_of(launch.run)
            if progress is not None and run is not None:
                await self._writer.write(launch, progress, run=run)
                followed.written = progress
        elif command is Command.WITHDRAW:
            await self._jobs.withdraw(launch)
        elif command is Command.FIND_JOB:
            found = await self._jobs.find(launch)
            followed.news = replace(followed.news, was_asked=True, found=found)
        if self._followed.get(key) is followed:
            self._queue.add(key)

    async def _signal(self, followed: _Followed) -> None:
        signal, launch = followed.memory.signal, followed.memory.launch
        if signal is None:
            return
        if signal.doing is Doing.RUNNING:
            started = Started(
                job_uid=launch.job_uid,
                launch=launch.launch,
                pod_uid=signal.pod_uid,
                started_at=signal.started_at,
            )
            is_accepted = await self._signals.started(launch.run, started)
        else:
            # With those that need no judgement, nothing has happened to the Pod.
            pod_uid = signal.pod_uid if signal.doing.needs_judgement else ""
            ends = self._sign(self._workloads.remembered_ends(launch.job_uid))
            ended = Ended(job_uid=launch.job_uid, launch=launch.launch, pod_uid=pod_uid, ends=ends)
            is_accepted = await self._signals.ended(
                launch.run, ended, is_repeated=signal.times_sent > 1
            )
        fields = {"job": launch.job_name, "doing": str(signal.doing)}
        logger.info("signalled" if is_accepted else "no workflow to signal", extra=fields)
        if is_accepted:
            followed.news = replace(followed.news, accepted=signal)

    def _on_events(self, key: Key, events: tuple[Object, ...]) -> None:
        followed = self._followed.get(key)
        if followed is not None:
            followed.news = replace(followed.news, events=events)
            self._queue.add(key)

    def _on_log(self, key: Key, log: str) -> None:
        followed = self._followed.get(key)
        if followed is None or followed.memory.log is None:
            return
        known = followed.report, followed.warm_up
        if followed.memory.log[1] == CONTAINER:
            followed.report = latest_line(ProgressLine, log) or followed.report
        else:
            followed.warm_up = str(latest_line(WarmUp, log) or followed.warm_up)
        if (followed.report, followed.warm_up) != known:
            self._queue.add(key)

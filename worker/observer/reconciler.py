"""Compares what each launch is doing with what its workflow and its run's status already know, and plans the difference.

Level-triggered: a reconcile reads the caches and makes no request. Signals, writes of the status, and questions about
Jobs that disappeared each have a queue and workers of their own, so that a slow Temporal delays no status and a slow
API server no signal. Everything is idempotent, so that a second leader does no harm.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from activities.rules import job_state
from activities.rules.observation import (
    REPLACEMENT_SECONDS,
    Before,
    Doing,
    Launch,
    Observation,
    event_subject,
    is_concluded,
    is_success,
    is_superseded,
    observe,
    observe_absent,
    running_message,
)
from activities.rules.pod_end import PodEnd
from activities.rules.pod_shape import shape_of_job, split_by_shape
from activities.rules.pod_state import is_warming_up, newest
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.informer import Key
from inferrun.kube.objects import Object
from inferrun.reasons import Phase, Reason
from inferrun.runner_report import Progress as RunnerProgress
from worker.observer.cluster_jobs import JobAccess
from worker.observer.event_reader import EventRequests
from worker.observer.job_probes import (
    FINISHING_SECONDS,
    LEFT_OVER_MAX_SECONDS,
    LEFT_OVER_SECONDS,
    PROBE_SECONDS,
    JobProbes,
)
from worker.observer.job_state import NEVER, JobState, WantedSignal
from worker.observer.progress_reader import ProgressFollower
from worker.observer.run_signals import SignalSender
from worker.observer.signal_queue import SignalQueue
from worker.observer.status_queue import StatusQueue, is_written, says_start, write_due
from worker.observer.status_writer import Progress, ProgressWriter
from worker.observer.workloads import Workloads

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0
"""Between two comparisons of the runs' statuses with the Jobs that exist, in case a change was missed."""

REST_EVERY = 20
"""Reconciles in a row after which the event loop gets its turn, about a millisecond."""


class Reconciler:
    """Run it as one task, for as long as this process is the leader."""

    def __init__(
        self,
        workloads: Workloads,
        *,
        signals: SignalSender,
        writer: ProgressWriter,
        events: EventRequests,
        progress: ProgressFollower,
        jobs: JobAccess,
        node_lost_seconds: Callable[[], int],
        server_time: Callable[[], datetime],
    ) -> None:
        self._workloads = workloads
        self._events = events
        self._progress = progress
        self._node_lost_seconds = node_lost_seconds
        self._server_time = server_time
        self._states: dict[Key, JobState] = {}
        self._reconciled = 0
        self._must_compare = asyncio.Event()
        self._queue: WorkQueue[Key] = WorkQueue(self._reconcile, workers=1, group=lambda key: key[0])
        self._signal_queue = SignalQueue(self._states, signals, on_sent=self.wake)
        self._status_queue = StatusQueue(self._states, workloads, writer, on_written=self.wake)
        self._probes = JobProbes(self._states, jobs, on_probed=self.wake)

    def wake(self, key: Key) -> None:
        """The Job, one of its Pods or its run changed."""
        self._queue.add(key)

    def compare_again(self) -> None:
        """Runs have appeared whose Jobs may have gone while nobody watched."""
        self._must_compare.set()

    async def run(self) -> None:
        """Reconcile everything, then whatever changes, until cancelled. What has ended while nobody acted comes first: of
        thousands of Jobs, most go on.
        """
        for key in self._workloads.job_keys():
            self._queue.add(key, background=not self._has_ended(key))
        async with asyncio.TaskGroup() as tasks:
            for queue in (self._queue, self._signal_queue, self._status_queue, self._probes):
                tasks.create_task(queue.run())
            tasks.create_task(self._sweep())

    def _has_ended(self, key: Key) -> bool:
        """Whether the Job is finished, or has no Pod that is known to go on."""
        job = self._workloads.job(key)
        return job is None or job_state.is_finished(job) or not self._workloads.pods_of(job["metadata"]["uid"])

    async def _sweep(self) -> None:
        """Find the runs whose status names a Job that does not exist."""
        while True:
            self._must_compare.clear()
            for run in list(self._workloads.all_runs()):
                try:
                    self._compare(run)
                except Exception:  # one bad object must not affect the others
                    logger.exception("a run cannot be compared", extra={"run": str(run["metadata"]["name"])})
            with suppress(TimeoutError):
                await asyncio.wait_for(self._must_compare.wait(), SWEEP_SECONDS)

    def _compare(self, run: Object) -> None:
        reference = (run.get("status") or {}).get("jobStatus")
        if not reference or not reference.get("name"):
            return
        key = run["metadata"]["namespace"], reference["name"]
        job = self._workloads.job(key)
        if job is not None and job["metadata"]["uid"] == reference.get("uid"):
            return
        launch = Launch.of_run(run)
        if launch is not None and key not in self._states:
            self._states[key] = JobState(launch)
        self._queue.add(key)

    async def _reconcile(self, key: Key) -> None:
        self._reconciled += 1
        if self._reconciled % REST_EVERY == 0:
            await asyncio.sleep(0)  # thousands of keys may be queued: other tasks get their turn
        job = self._workloads.job(key)
        state = self._state_of(key, job)
        if state is None:
            return
        run = self._workloads.run_of(state.launch.run)
        if job is not None and job["metadata"]["uid"] == state.launch.job_uid:
            self._reconcile_present(key, state, job=job, run=run)
        else:
            self._reconcile_absent(key, state, run=run)
        if state.signal is None or is_concluded(run, launch=state.launch):
            self._signal_queue.settle(key)

    def _state_of(self, key: Key, job: Object | None) -> JobState | None:
        """The state of the launch that matters: of a Job that is gone until its end is acknowledged."""
        state = self._states.get(key)
        if job is None or (state is not None and state.version and state.launch.job_uid == job["metadata"]["uid"]):
            return state
        launch = Launch.of_job(job)
        if launch is None:
            return state
        run = self._workloads.run_of(launch.run)
        named = Launch.of_run(run) if run is not None else None
        if named is not None and named.job_name == launch.job_name and named.job_uid != launch.job_uid:
            launch = named
        if state is None or state.launch != launch:
            state = self._states[key] = JobState(launch)
        return state

    def _reconcile_present(self, key: Key, state: JobState, *, job: Object, run: Object | None) -> None:
        if run is None or is_superseded(run, launch=state.launch):
            ends = self._ends_of(state.launch, job)
            is_finishing = not job_state.is_finished(job) and any(is_success(end, job) for end in ends)
            self._rest(key, state, patience=FINISHING_SECONDS if is_finishing else LEFT_OVER_SECONDS)
            return  # it has finished, is gone, or was not seen yet
        now = _now()
        state.is_left_over = state.is_probed = state.is_gone = False
        state.probe_due = NEVER
        pods = self._pods_of(state.launch, job)
        inputs = (job, pods, run, state.events, state.records, state.note, state.warm_up)
        if state.is_settled(inputs, now=now):
            return
        state.inputs = inputs
        state.observe_version(tuple(one["metadata"]["resourceVersion"] for one in (job, *pods)), now=now)
        seen = observe(
            job,
            pods,
            events=state.events,
            ends=self._ends_of(state.launch, job),
            before=_before(state, run),
            now=self._server_time(),
            quiet_seconds=now - state.changed_at,
            node_lost_seconds=self._node_lost_seconds(),
            warm_up=state.warm_up,
        )
        state.recheck_due = NEVER if seen.lost_in is None else now + seen.lost_in
        if seen.wait is None:
            state.wait_reason = None  # nothing waits for Events
        if seen.doing is Doing.RUNNING:
            self._plan_running(key, state, seen, run=run, now=now)
        elif seen.doing is Doing.WAITING:
            self._plan_waiting(key, state, seen, job=job, pods=pods, run=run, now=now)
        else:
            self._progress.forget(key)
            state.progress = None
            pending = WantedSignal(seen.doing, pod_uid=seen.pod_uid) if seen.doing.needs_judgement else None
            state.want_signal(pending, now=now)
            recheck = state.changed_at + REPLACEMENT_SECONDS
            if seen.doing is Doing.ENDING and recheck > now:
                state.recheck_due = min(state.recheck_due, recheck)
        self._schedule(key, state, now=now)

    def _pods_of(self, launch: Launch, job: Object) -> tuple[Object, ...]:
        """The Job's Pods; what a planted one says is no progress and no reason for waiting."""
        pods = self._workloads.pods_of(launch.job_uid)
        genuine, planted = split_by_shape(pods, shape=shape_of_job(job))
        return tuple(genuine) if planted else pods

    def _ends_of(self, launch: Launch, job: Object) -> tuple[PodEnd, ...]:
        shape = shape_of_job(job)
        return tuple(end for end in self._workloads.remembered_ends(launch.job_uid) if end.shape == shape)

    def _plan_running(self, key: Key, state: JobState, seen: Observation, *, run: Object, now: float) -> None:
        message = running_message(state.launch, seen.pod_name)
        if not state.launch.is_builtin:
            self._progress.forget(key)  # its warm-up is over
        if not state.launch.has_clock or (not state.is_known and says_start(run, message)):
            state.pod_uid, state.is_known = seen.pod_uid, True
        if state.launch.shards > 1 and state.is_known and state.pod_uid:
            state.pod_uid = seen.pod_uid  # another Pod represents the launch, which continues
        if not state.is_known or state.pod_uid != seen.pod_uid:
            state.want_signal(WantedSignal(Doing.RUNNING, pod_uid=seen.pod_uid, started_at=seen.started_at), now=now)
            state.progress = None  # why it waited is outdated, and Running is written after the signal was accepted
            return
        state.want_signal(None, now=now)
        if state.launch.is_builtin:
            self._progress.follow(key, seen.pod_name, self._on_progress)
        reason = Reason.RUNNING
        if seen.unreachable:
            reason, message = Reason.NODE_UNREACHABLE, f"{message}; {seen.unreachable}"
        elif state.note:
            message = f"{message}; {state.note}"
        wanted = Progress(
            Phase.RUNNING,
            reason,
            message,
            started_at=seen.started_at,
            records=state.records,
            pace=state.pace,
            is_warning=bool(seen.unreachable),
        )
        self._plan_status(state, wanted, run=run, now=now)

    def _plan_waiting(
        self,
        key: Key,
        state: JobState,
        seen: Observation,
        *,
        job: Object,
        pods: tuple[Object, ...],
        run: Object,
        now: float,
    ) -> None:
        pod = newest(list(pods))
        if pod is not None and is_warming_up(pod):
            self._progress.follow_warm_up(key, pod["metadata"]["name"], self._on_warm_up)
        else:
            self._progress.forget(key)
        wait = seen.wait
        if wait is not None and wait.lacks_contract and pod is not None:
            state.want_help(pod["metadata"]["uid"], now=now)
        elif wait is not None and wait.lacks_room:
            state.want_help("", now=now)
        else:
            state.want_signal(None, now=now)
        if wait is None:
            return
        state.observe_reason(wait.reason, now=now)
        subject = event_subject(job, pods)
        if subject is None:
            state.expect_no_events()
        elif now >= state.events_due:
            state.events_due = NEVER
            self._events.request(key, subject["metadata"]["uid"], self._on_events)
        wanted = Progress(Phase.PENDING, wait.reason, wait.message, is_warning=wait.is_warning)
        self._plan_status(state, wanted, run=run, now=now)

    def _plan_status(self, state: JobState, wanted: Progress, *, run: Object, now: float) -> None:
        status = run.get("status") or {}
        is_ours = (status.get("jobStatus") or {}).get("uid") == state.launch.job_uid
        if not is_ours or is_concluded(run, launch=state.launch) or is_written(state, wanted, run):
            state.progress = None
        else:
            state.want_status(wanted, now=now)

    def _schedule(self, key: Key, state: JobState, *, now: float) -> None:
        """Hand what is due to the queues, and come back when the next thing is."""
        if state.signal is not None and state.signal_due <= now:
            state.signal_due = NEVER
            self._signal_queue.add(key)
        if state.probe_due <= now:
            state.probe_due = NEVER
            self._probes.add(key)
        due = write_due(state) if state.progress is not None else NEVER
        if due <= now:
            self._status_queue.add(key)
        later = (
            state.events_due if state.wait_reason is not None else NEVER,
            state.signal_due if state.signal is not None else NEVER,
            due if due > now else NEVER,
            state.probe_due,
            state.recheck_due,
        )
        state.next_due = min(later)
        if state.next_due < NEVER:
            self._queue.add_later(key, max(0.0, state.next_due - now))

    def _reconcile_absent(self, key: Key, state: JobState, *, run: Object | None) -> None:
        self._progress.forget(key)
        launch, state.inputs = state.launch, ()
        if is_concluded(run, launch=launch):
            del self._states[key]
            if self._workloads.job(key) is not None:
                self._queue.add(key)  # another Job of that name
            return
        now = _now()
        state.progress, state.wait_reason = None, None
        is_over = state.is_gone and observe_absent(self._workloads.pods_of(launch.job_uid)) is not None
        state.want_signal(WantedSignal(Doing.GONE) if is_over else None, now=now)
        if not state.is_probed:
            state.is_probed, state.probe_due = True, now + PROBE_SECONDS
        self._schedule(key, state, now=now)

    def _rest(self, key: Key, state: JobState, *, patience: float) -> None:
        """Nothing is to be reported about this launch, as far as it is known. If that lasts, the Job is left over."""
        self._progress.forget(key)
        state.signal, state.progress, state.wait_reason, state.inputs = None, None, None, ()
        now = _now()
        if not state.is_left_over:
            state.is_left_over, state.left_over_pause = True, patience
            state.probe_due = now + patience
        elif state.probe_due <= now:
            state.left_over_pause = min(state.left_over_pause * 2, LEFT_OVER_MAX_SECONDS)
            self._probes.add(key)
            state.probe_due = now + state.left_over_pause
        self._schedule(key, state, now=now)

    def _on_events(self, key: Key, events: tuple[Object, ...] | None) -> None:
        state = self._states.get(key)
        if state is not None:
            state.receive_events(events, now=_now())
            state.inputs = ()
            self._queue.add(key)

    def _on_warm_up(self, key: Key, seen: str) -> None:
        state = self._states.get(key)
        if state is not None and state.warm_up != seen:
            state.warm_up = seen
            self._queue.add(key)

    def _on_progress(self, key: Key, progress: RunnerProgress) -> None:
        state = self._states.get(key)
        if state is not None and (state.records, state.note) != (progress.records, progress.note):
            state.records, state.pace, state.note = progress.records, progress.pace, progress.note
            self._queue.add(key)


def _before(state: JobState, run: Object) -> Before:
    if state.is_known:
        return Before(is_running=bool(state.pod_uid), pod_uid=state.pod_uid)
    status = run.get("status") or {}
    is_ours = (status.get("jobStatus") or {}).get("uid") == state.launch.job_uid
    return Before(is_running=is_ours and status.get("phase") == Phase.RUNNING)


def _now() -> float:
    return asyncio.get_running_loop().time()

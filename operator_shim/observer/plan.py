"""Plans the commands for one launch, from the state of its objects and the memory of earlier plans.
Pure.

Level-triggered: a plan follows from the state of the cluster, of the run's status and of what the
workflow has accepted, whatever changed. Everything that it asks for is idempotent, so that a second
leader does no harm. Times are those of the event loop's clock, in seconds. A memory takes a few
hundred bytes, because there may be twelve thousand launches.

A Job leaves the watch when it is deleted or labelled as ended. Everybody who may edit Jobs can
label one, or remove the labels by which it is watched, so the labels alone prove nothing: the API
server is asked, and a Job that has not finished gets them back.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from control.launches import job_state
from control.launches.diagnosis import SLOW_PULL_AFTER, Wait
from control.launches.observation import (
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
from control.launches.pod_end import PodEnd
from inferrun import wellknown
from inferrun.backoff import Backoff
from inferrun.kube.objects import Object, annotations_of, status_of
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT, CONTAINER, WARM_UP_CONTAINER
from inferrun.launches.pod_shape import shape_of_job, split_by_shape
from inferrun.launches.pod_state import is_warming_up, newest
from inferrun.reasons import Phase, Reason
from inferrun.runner_report import ProgressLine
from operator_shim.observer.status_writer import ShownProgress

NEVER: Final = math.inf

EVENTS: Final = Backoff(5.0, 300.0)
"""The pauses from a change of a Job or its Pods to a read of its Events, and between two reads that
no change precedes."""

SIGNALS: Final = Backoff(10.0, 300.0)
"""The pauses between two signals that nobody acknowledges; the longest also between two requests
for help."""

STATUS_SECONDS: Final = 5.0
"""Least time between two writes of a run's status."""

SETTLE_SECONDS: Final = 2.0
"""How long a wait that needs no attention lasts before it is written."""

START_SECONDS: Final = SLOW_PULL_AFTER
"""How long the wait between the Job and a container that starts lasts before it is written: most
have started by then, and nothing is wrong. A pull of the image that takes longer than this is
reported as such, and so costs one write instead of two."""

USUAL_WAITS: Final = (Reason.JOB_CREATED, Reason.POD_SCHEDULED)


@dataclass(frozen=True, kw_only=True)
class PatienceTiming:
    """Seconds until the API server is asked about a run or a Job without the other."""

    probe: float = 0.2
    """Time for the status of a run to arrive after its Job left the watch; usually it says that the
    run has finished."""

    probe_again: float = 5.0
    """The time until it is asked again."""

    left_over: float = 15.0
    """Time for a Job's run to arrive in the watch, or for its end to be labelled."""

    finishing: float = 120.0
    """The time for a Job whose Pod has succeeded: its controller may need half a minute to finish
    it, and then it is labelled."""

    longest: float = 300.0
    """The longest time between two questions about a Job; it is doubled up to this."""

    def __post_init__(self) -> None:
        if not self.probe < self.probe_again < self.left_over < self.finishing < self.longest:
            raise ValueError(
                f"needs probe < probe_again < left_over < finishing < longest, not {self}"
            )


PATIENCE: Final = PatienceTiming()
LEFT_OVERS: Final = Backoff(PATIENCE.left_over, PATIENCE.longest)


class Command(StrEnum):
    """What to do now. What is to be signalled, written or followed is in the memory."""

    SIGNAL = "signal"
    WRITE = "write"
    READ_EVENTS = "read Events"
    FIND_JOB = "find the Job"
    """Ask the API server, and have a Job that has not finished watched again."""
    WITHDRAW = "withdraw the Job"
    """End it if nothing follows it any more."""


@dataclass(frozen=True, slots=True)
class WantedSignal:
    """A signal that the workflow has not acknowledged: `RUNNING` is sent as `started`, everything
    else as `ended`.

    `WAITING` asks the workflow to provide what the Pod lacks.
    """

    doing: Doing
    pod_uid: str = ""
    started_at: str = ""
    due: float = field(default=0.0, compare=False)
    pause: float = field(default=SIGNALS.first, compare=False)
    times_sent: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class News:
    """The results of commands since the last plan: Events, the Job, and the signal that a workflow
    accepted."""

    events: tuple[Object, ...] | None = None
    accepted: WantedSignal | None = None
    was_asked: bool = False
    """Whether the API server was asked for the Job of that name."""
    found: Object | None = None
    """The Job that it has then."""


NO_NEWS: Final = News()


@dataclass(frozen=True, slots=True)
class View:
    """The state of a launch. `job` is None if the watch does not have it; `pods` are the Job's that
    are not terminal, `ends` the ends of others. `report` and `warm_up` were read from logs;
    `written` is the progress that was written last.
    """

    now: float
    server_time: datetime
    job: Object | None
    pods: tuple[Object, ...]
    ends: tuple[PodEnd, ...]
    run: Object | None
    node_lost_seconds: int
    report: ProgressLine | None = None
    warm_up: str = ""
    written: ShownProgress | None = None
    news: News = NO_NEWS
    pause: str = ""
    """What the run's status says about its paused workflow; empty if that is not paused."""


@dataclass(frozen=True, slots=True)
class _Reads:
    """The Events of a launch that waits, and when they are read again."""

    events: tuple[Object, ...] = ()
    due: float = NEVER
    pause: float = EVENTS.first


@dataclass(frozen=True, slots=True)
class _Question:
    """About a Job that is not as expected: one that the watch does not have or, if `is_left_over`,
    one that has no run, or whose run is past this launch.
    """

    is_left_over: bool
    due: float
    pause: float = PATIENCE.left_over
    is_gone: bool = False
    """Whether the API server confirmed that the Job is gone, or finished without being watched."""
    is_labelled: bool = False
    """Whether the Job was labelled as ended when the API server was last asked."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The earlier plans for a launch, as far as they matter."""

    launch: Launch
    version: tuple[str, ...] = ()
    """Resource versions of the Job and its Pods when they were planned for last."""
    changed_at: float = 0.0
    announced: str | None = None
    """The Pod whose start was announced and whose end was not, empty without such a Pod; None: the
    run's status says it."""

    reads: _Reads = _Reads()
    wait_reason: Reason | None = None
    log: tuple[str, str] | None = None
    """The Pod and the container whose log is followed."""

    signal: WantedSignal | None = None
    helped_at: float = -NEVER
    """When the workflow was last asked to provide what the Pod lacks."""

    progress: ShownProgress | None = None
    """What the status should say and does not."""
    wanted_at: float = 0.0
    written_at: float = -NEVER

    question: _Question | None = None
    due: float = 0.0
    """When to plan again although nothing has changed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The memory from now on, None if the launch need not be followed any more, and what to do now.
    `subject` is the UID of the object whose Events are to be read.
    """

    memory: Memory | None
    commands: tuple[Command, ...] = ()
    subject: str = ""


def plan(view: View, memory: Memory) -> Plan:
    """Compare what the launch is doing with what its workflow and its run's status know, and plan
    the difference."""
    memory = _with_news(memory, view.news, now=view.now)
    if view.job is None:
        return _plan_missing(view, memory)
    if view.run is None or is_superseded(view.run, launch=memory.launch):
        return _plan_left_over(view, view.job, memory)
    return _plan_present(view, view.job, view.run, memory)


def _with_news(memory: Memory, news: News, *, now: float) -> Memory:
    """A workflow acknowledges a start, a Pod that was taken away and a request for help by
    accepting the signal; other signals by what follows.
    """
    if news.events is not None:
        memory = replace(memory, reads=replace(memory.reads, events=news.events))
    accepted = news.accepted
    if accepted is None or accepted != memory.signal:
        return memory
    if accepted.doing is Doing.RUNNING:
        return replace(memory, signal=None, announced=accepted.pod_uid)
    if accepted.doing is Doing.TAKEN:
        return replace(memory, signal=None, announced="")
    return (
        replace(memory, signal=None, helped_at=now) if accepted.doing is Doing.WAITING else memory
    )


def _plan_missing(view: View, memory: Memory) -> Plan:
    """The watch does not have the Job. Its end is signalled once the API server has confirmed it
    and no Pod of it may run."""
    if is_concluded(view.run, launch=memory.launch):
        return Plan(None)
    known, now = memory.question, view.now
    question = (
        _Question(is_left_over=False, due=now + PATIENCE.probe)
        if known is None or known.is_left_over
        else known
    )
    commands: tuple[Command, ...] = ()
    if view.news.was_asked:
        job, is_labelled = view.news.found, False
        is_gone = job is None or job["metadata"]["uid"] != memory.launch.job_uid
        if job is not None and not is_gone:
            is_labelled = wellknown.LABEL_ENDED in (job["metadata"].get("labels") or {})
            # The end of one that is labelled is judged elsewhere; the run's status should have
            # followed the label.
            is_gone = job_state.is_finished(job) and (question.is_labelled or not is_labelled)
        due = NEVER if is_gone else now + PATIENCE.probe_again
        question = replace(question, is_gone=is_gone, is_labelled=is_labelled, due=due)
    elif question.due <= now:
        commands, question = (Command.FIND_JOB,), replace(question, due=NEVER)
    is_over = question.is_gone and observe_absent(view.pods) is not None
    wanted = WantedSignal(Doing.GONE) if is_over else None
    memory = replace(memory, question=question, progress=None, wait_reason=None, log=None)
    if is_over and view.pause and view.run is not None:
        memory = _reporting(memory, _unfollowed(view.run, "its Job is gone"), view, view.run)
    return _scheduled(_wanting(memory, wanted, now=now), commands, now=now)


def _plan_left_over(view: View, job: Object, memory: Memory) -> Plan:
    """Nothing is to be reported about this launch, as far as it is known. If that lasts, its Job is
    withdrawn."""
    now, question = view.now, memory.question
    commands: tuple[Command, ...] = ()
    if question is None or not question.is_left_over:
        is_done = any(is_success(end, job) for end in _genuine_ends(view.ends, job))
        patience = (
            PATIENCE.finishing if is_done and not job_state.is_finished(job) else PATIENCE.left_over
        )
        question = _Question(is_left_over=True, due=now + patience, pause=patience)
    elif question.due <= now:
        pause = LEFT_OVERS.longer(question.pause)
        question, commands = replace(question, due=now + pause, pause=pause), (Command.WITHDRAW,)
    memory = replace(
        memory, question=question, signal=None, progress=None, wait_reason=None, log=None
    )
    return _scheduled(memory, commands, now=now)


def _plan_present(view: View, job: Object, run: Object, memory: Memory) -> Plan:
    now = view.now
    genuine, planted = split_by_shape(view.pods, shape=shape_of_job(job))
    # what a planted Pod says is no progress and no reason for waiting
    pods = tuple(genuine) if planted else view.pods
    version = tuple(one["metadata"]["resourceVersion"] for one in (job, *pods))
    if version != memory.version:
        memory = replace(
            memory, version=version, changed_at=now, reads=_read_soon(memory.reads, now=now)
        )
    seen = observe(
        job,
        pods,
        events=memory.reads.events,
        ends=_genuine_ends(view.ends, job),
        before=_before(memory, run),
        now=view.server_time,
        quiet_seconds=now - memory.changed_at,
        node_lost_seconds=view.node_lost_seconds,
        warm_up=view.warm_up,
        changed=planted,
    )
    memory = replace(
        memory,
        question=None,
        log=None,
        wait_reason=memory.wait_reason if seen.wait is not None else None,
    )
    recheck = NEVER if seen.lost_in is None else now + seen.lost_in
    if seen.doing is Doing.RUNNING:
        return _scheduled(_plan_running(view, job, run, memory, seen), now=now, recheck=recheck)
    if seen.doing is Doing.WAITING:
        memory, subject = _plan_waiting(view, memory, seen.wait, job=job, pods=pods, run=run)
        commands = (Command.READ_EVENTS,) if subject else ()
        return _scheduled(memory, commands, now=now, recheck=recheck, subject=subject)
    pending = WantedSignal(seen.doing, pod_uid=seen.pod_uid) if seen.doing.needs_judgement else None
    memory = replace(_wanting(memory, pending, now=now), progress=None)
    if view.pause and seen.doing is not Doing.TAKEN:
        text = "its Pod can do no more" if seen.doing is Doing.STUCK else "its Pod has completed"
        memory = _reporting(memory, _unfollowed(run, text), view, run)
    replaced = memory.changed_at + REPLACEMENT_SECONDS
    if seen.doing is Doing.ENDING and replaced > now:
        recheck = min(recheck, replaced)
    return _scheduled(memory, now=now, recheck=recheck)


def _unfollowed(run: Object, message: str) -> ShownProgress:
    """What has become of a launch that nothing follows, because the run's workflow is paused."""
    status = status_of(run)
    phase = Phase(status.get("phase") or Phase.PENDING)
    since = str(status.get("runningSince") or "")
    return ShownProgress(phase, Reason.WORKFLOW_PAUSED, message, started_at=since)


def _genuine_ends(ends: Iterable[PodEnd], job: Object) -> tuple[PodEnd, ...]:
    shape = shape_of_job(job)
    return tuple(end for end in ends if end.shape == shape)


def _before(memory: Memory, run: Object) -> Before:
    if memory.announced is not None:
        return Before(is_running=bool(memory.announced), pod_uid=memory.announced)
    status = status_of(run)
    is_ours = (status.get("jobStatus") or {}).get("uid") == memory.launch.job_uid
    return Before(is_running=is_ours and status.get("phase") == Phase.RUNNING)


def _plan_running(
    view: View, job: Object, run: Object, memory: Memory, seen: Observation
) -> Memory:
    """`Running` is written after the workflow has accepted the start, if it needs to know it for a
    clock."""
    launch, message = memory.launch, running_message(memory.launch, seen.pod_name)
    is_known = memory.announced is not None
    # also if the limit came later
    has_clock = ANNOTATION_SECONDS_LEFT in annotations_of(job)
    # Of several shards, another Pod represents the launch, which continues.
    is_another_shard = launch.shards > 1 and bool(memory.announced)
    status = status_of(run)
    text = status.get("message") or ""  # more may have been added to it since
    is_said = text == message or text.startswith(f"{message}; ")
    is_said = is_said and status.get("phase") == Phase.RUNNING
    is_said = is_said and status.get("reason") in (Reason.RUNNING, Reason.WORKFLOW_PAUSED)
    if not has_clock or (not is_known and is_said) or is_another_shard:
        memory = replace(memory, announced=seen.pod_uid)
    if memory.announced != seen.pod_uid:
        start = WantedSignal(Doing.RUNNING, pod_uid=seen.pod_uid, started_at=seen.started_at)
        # why it waited is outdated
        return replace(_wanting(memory, start, now=view.now), progress=None)
    log = (seen.pod_name, CONTAINER) if launch.is_builtin else None
    memory, report = replace(memory, signal=None, log=log), view.report
    reason = Reason.RUNNING
    if seen.unreachable:
        reason, message = Reason.NODE_UNREACHABLE, f"{message}; {seen.unreachable}"
    elif report is not None and report.note:
        message = f"{message}; {report.note}"
    progress = ShownProgress(
        Phase.RUNNING,
        reason,
        message,
        started_at=seen.started_at,
        report=report,
        is_warning=bool(seen.unreachable),
    )
    return _reporting(memory, progress, view, run)


def _plan_waiting(
    view: View,
    memory: Memory,
    wait: Wait | None,
    *,
    job: Object,
    pods: tuple[Object, ...],
    run: Object,
) -> tuple[Memory, str]:
    """The memory, and the UID of the object whose Events are to be read now, empty if they are
    not."""
    now, pod, wanted = view.now, newest(list(pods)), None
    is_to_help = now - memory.helped_at >= SIGNALS.longest
    if is_to_help and wait is not None and wait.lacks_contract and pod is not None:
        wanted = WantedSignal(Doing.WAITING, pod_uid=pod["metadata"]["uid"])
    elif is_to_help and wait is not None and wait.lacks_room:
        wanted = WantedSignal(Doing.WAITING)
    log = (
        (pod["metadata"]["name"], WARM_UP_CONTAINER)
        if pod is not None and is_warming_up(pod)
        else None
    )
    memory = replace(_wanting(memory, wanted, now=now), log=log)
    if wait is None:
        return replace(memory, progress=None), ""
    reads, subject_uid = memory.reads, ""
    if wait.reason != memory.wait_reason:
        reads = _read_soon(reads, now=now)
    subject = event_subject(job, pods)
    if subject is None:  # Events have nothing to add to what the objects say
        reads = _Reads()
    elif now >= reads.due:
        subject_uid = subject["metadata"]["uid"]
        pause = EVENTS.longer(reads.pause)
        reads = replace(reads, due=now + reads.pause, pause=pause)
    memory = replace(memory, reads=reads, wait_reason=wait.reason)
    progress = ShownProgress(Phase.PENDING, wait.reason, wait.message, is_warning=wait.is_warning)
    return _reporting(memory, progress, view, run), subject_uid


def _read_soon(reads: _Reads, *, now: float) -> _Reads:
    """The reads become frequent again. One that is due earlier, because of an earlier change, is
    not postponed."""
    return replace(reads, due=min(reads.due, now + EVENTS.first), pause=EVENTS.first)


def _wanting(memory: Memory, signal: WantedSignal | None, *, now: float) -> Memory:
    """Plan a signal. The same one again keeps its plan: `started_at` may differ when a clock is
    corrected."""
    known = memory.signal
    if (
        known is not None
        and signal is not None
        and (known.doing, known.pod_uid) == (signal.doing, signal.pod_uid)
    ):
        return memory
    return replace(memory, signal=replace(signal, due=now) if signal is not None else None)


def _reporting(memory: Memory, progress: ShownProgress, view: View, run: Object) -> Memory:
    """Plan a write of the status, unless it says this already or is not, or no longer, about this
    launch."""
    if view.pause:
        progress = replace(
            progress, reason=Reason.WORKFLOW_PAUSED, message=f"{progress.message}; {view.pause}"
        )
    status = status_of(run)
    is_ours = (status.get("jobStatus") or {}).get("uid") == memory.launch.job_uid
    is_written = (status.get("phase"), status.get("reason")) == (progress.phase, progress.reason)
    if status.get("message") != progress.message:  # the API's limits may have shortened it
        is_written &= view.written == progress
    elif (report := progress.report) is not None:
        is_written &= status.get("records") == report.records.model_dump(exclude_none=True)
        failed = report.pace.failed_requests if report.pace is not None else 0
        is_written &= not failed or (status.get("pace") or {}).get("failedRequests") == failed
    if not is_ours or is_concluded(run, launch=memory.launch) or is_written:
        return replace(memory, progress=None)
    known = memory.progress
    is_same = known is not None and (known.phase, known.reason) == (progress.phase, progress.reason)
    return replace(memory, progress=progress, wanted_at=memory.wanted_at if is_same else view.now)


def _scheduled(
    memory: Memory,
    commands: tuple[Command, ...] = (),
    *,
    now: float,
    recheck: float = NEVER,
    subject: str = "",
) -> Plan:
    """The plan with the signal and the write that are due, and with the time at which something
    else is."""
    signal, written_at, write_due = memory.signal, memory.written_at, NEVER
    if signal is not None and signal.due <= now:
        commands = (*commands, Command.SIGNAL)
        pause = SIGNALS.longer(signal.pause)
        signal = replace(
            signal, due=now + signal.pause, pause=pause, times_sent=signal.times_sent + 1
        )
    if (progress := memory.progress) is not None:
        patience = START_SECONDS if progress.reason in USUAL_WAITS else SETTLE_SECONDS
        needs_attention = progress.phase is not Phase.PENDING or progress.is_warning
        write_due = max(
            written_at + STATUS_SECONDS, memory.wanted_at + (0.0 if needs_attention else patience)
        )
    if write_due <= now:
        commands = (*commands, Command.WRITE)
        written_at, write_due = now, now + STATUS_SECONDS
    due = min(
        memory.reads.due if memory.wait_reason is not None else NEVER,
        signal.due if signal is not None else NEVER,
        write_due,
        memory.question.due if memory.question is not None else NEVER,
        recheck,
    )
    return Plan(replace(memory, signal=signal, written_at=written_at, due=due), commands, subject)

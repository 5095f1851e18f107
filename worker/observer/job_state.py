"""What the reconciler remembers of one live Job: a few hundred bytes, since there may be twelve thousand of them."""

import math
from dataclasses import dataclass, field

from activities.rules.observation import Doing, Launch
from inferrun.kube.objects import Object
from inferrun.reasons import Reason
from inferrun.runner_report import Pace, RecordCounts
from worker.observer.status_writer import Progress

EVENTS_FIRST_SECONDS = 5.0
EVENTS_MAX_SECONDS = 300.0
EVENTS_POSTPONED_SECONDS = 20.0
"""Maximum seconds by which changes of a Job or its Pods postpone a read of its Events."""

SIGNAL_FIRST_SECONDS = 10.0
SIGNAL_MAX_SECONDS = 300.0

NEVER = math.inf


@dataclass(frozen=True, slots=True)
class WantedSignal:
    """A signal that the workflow has not acknowledged: `RUNNING` is sent as `started`, everything else as `ended`.

    `WAITING` asks it to provide what the Pod lacks.
    """

    doing: Doing
    pod_uid: str = ""
    started_at: str = ""


@dataclass(slots=True)
class JobState:
    """Times are those of the event loop's clock, in seconds."""

    launch: Launch

    inputs: tuple[object, ...] = ()
    """The cached objects that the last reconcile read; the same ones again before `next_due` need no reconcile."""
    next_due: float = 0.0

    version: tuple[str, ...] = ()
    """Resource versions of the Job and its Pods when they were observed last."""
    changed_at: float = 0.0
    recheck_due: float = NEVER

    is_known: bool = False
    """Whether `pod_uid` says what was announced; until then the run's status does."""
    pod_uid: str = ""
    """The Pod whose start was announced and whose end was not."""
    records: RecordCounts | None = None
    pace: Pace | None = None
    note: str = ""
    """Why the runner does not send requests as usual."""
    warm_up: str = ""
    """What the warm-up of its model has seen last."""

    wait_reason: Reason | None = None
    events: tuple[Object, ...] = field(default=())
    events_due: float = 0.0
    events_pause: float = EVENTS_FIRST_SECONDS
    unread_since: float = NEVER
    """When a change first put off the next read of Events."""

    signal: WantedSignal | None = None
    signal_due: float = 0.0
    """When it is sent (again); NEVER while it is being sent."""
    signal_pause: float = SIGNAL_FIRST_SECONDS
    is_repeated: bool = False

    helped_at: float = -NEVER
    """When the workflow was last asked to provide what the Pod lacks."""

    progress: Progress | None = None
    """What the status should say and does not."""
    wanted_at: float = 0.0
    written: Progress | None = None
    written_at: float = -NEVER

    is_gone: bool = False
    """Whether the API server confirmed that the Job is gone, or finished without being watched."""
    is_probed: bool = False
    probe_due: float = NEVER
    is_labelled: bool = False
    """Whether the Job was labelled as ended when the API server was asked about it last."""

    is_left_over: bool = False
    """Whether the Job exists, but nothing is to be reported about it: its run is not there, or is past this launch."""
    left_over_pause: float = 0.0

    def is_settled(self, inputs: tuple[object, ...], *, now: float) -> bool:
        """Whether a reconcile of these objects would change nothing."""
        if now >= self.next_due or len(inputs) != len(self.inputs):
            return False
        return all(one is other for one, other in zip(inputs, self.inputs, strict=True))

    def observe_version(self, version: tuple[str, ...], *, now: float) -> None:
        """Take note of the objects' versions; a change restarts the wait for Events, within a limit."""
        if version == self.version:
            return
        self.version = version
        self.changed_at = now
        self.events_pause = EVENTS_FIRST_SECONDS
        self.unread_since = min(self.unread_since, now)
        self.events_due = min(now + EVENTS_FIRST_SECONDS, self.unread_since + EVENTS_POSTPONED_SECONDS)

    def expect_no_events(self) -> None:
        """Events have nothing to add to what the objects say."""
        self.events, self.events_due, self.unread_since = (), NEVER, NEVER

    def observe_reason(self, reason: Reason, *, now: float) -> None:
        """Take note of why it waits; a new reason makes the reads of Events frequent again."""
        if reason == self.wait_reason:
            return
        self.wait_reason = reason
        self.events_pause = EVENTS_FIRST_SECONDS
        if self.events_due < NEVER:
            self.events_due = min(self.events_due, now + EVENTS_FIRST_SECONDS)

    def receive_events(self, events: tuple[Object, ...] | None, *, now: float) -> None:
        """Keep what was read, if it could be, and plan the next read."""
        self.unread_since = NEVER
        if events is not None:
            self.events = events
        self.events_due = now + self.events_pause
        self.events_pause = min(self.events_pause * 2, EVENTS_MAX_SECONDS)

    def want_help(self, pod_uid: str, *, now: float) -> None:
        """Ask the workflow to provide what the Pod lacks, unless it was asked a moment ago; an empty UID: there is no Pod yet."""
        is_due = now - self.helped_at >= SIGNAL_MAX_SECONDS
        self.want_signal(WantedSignal(Doing.WAITING, pod_uid=pod_uid) if is_due else None, now=now)

    def want_signal(self, signal: WantedSignal | None, *, now: float) -> None:
        """Plan a signal. The same one again keeps its plan: `started_at` may differ when a clock is corrected."""
        known = self.signal
        if known is not None and signal is not None and (known.doing, known.pod_uid) == (signal.doing, signal.pod_uid):
            return
        self.signal = signal
        self.signal_due = now
        self.signal_pause = SIGNAL_FIRST_SECONDS
        self.is_repeated = False

    def plan_repetition(self, *, now: float) -> None:
        """The signal was sent: again later, unless it is acknowledged by then."""
        self.signal_due = now + self.signal_pause
        self.signal_pause = min(self.signal_pause * 2, SIGNAL_MAX_SECONDS)
        self.is_repeated = True

    def want_status(self, progress: Progress, *, now: float) -> None:
        """Plan a write of the status."""
        planned = self.progress
        if planned is None or (planned.phase, planned.reason) != (progress.phase, progress.reason):
            self.wanted_at = now
        self.progress = progress

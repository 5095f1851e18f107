"""Writes the statuses that the reconciler wants, with workers of its own, and decides when each of them is due."""

import asyncio
from collections.abc import Callable, Mapping

from activities.rules.diagnosis import SLOW_PULL_AFTER
from inferrun.control.pace import Pace
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.informer import Key
from inferrun.kube.objects import Object
from inferrun.reasons import Phase, Reason
from worker.observer.job_state import JobState
from worker.observer.status_writer import Progress, ProgressWriter
from worker.observer.workloads import Workloads

WORKERS = 20

STATUS_SECONDS = 5.0
"""Least time between two writes of a run's status."""

SETTLE_SECONDS = 2.0
"""How long a wait that needs no attention lasts before it is written."""

START_SECONDS = SLOW_PULL_AFTER
"""The same for the wait between the Job and a container that starts: most have started by then, and nothing is wrong. A pull of
the image that takes longer than this is reported as such, and so costs one write instead of two."""

USUAL_WAITS = (Reason.JOB_CREATED, Reason.POD_SCHEDULED)

USUAL_AT_ONCE = 10
USUAL_PER_SECOND = 5.0
"""Statuses of a namespace that report a usual wait: a few at once, then so many per second. Of a thousand Jobs that are created at
once, most wait that long for a Pod, and the writes that say so would delay the creation of the others.
"""


class StatusQueue:
    """Run it as one task. `on_written` is called with the key of the Job after each write."""

    def __init__(
        self,
        states: Mapping[Key, JobState],
        workloads: Workloads,
        writer: ProgressWriter,
        *,
        on_written: Callable[[Key], None],
    ) -> None:
        self._states = states
        self._workloads = workloads
        self._writer = writer
        self._on_written = on_written
        self._queue: WorkQueue[Key] = WorkQueue(self._write, workers=WORKERS, group=lambda key: key[0])
        self._pace = Pace(burst=USUAL_AT_ONCE, per_second=USUAL_PER_SECOND)
        self._with_turn: set[Key] = set()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._queue.run()

    def add(self, key: Key) -> None:
        """Write the progress that the Job's state wants; a usual wait when it is its turn, unless it has ended by then."""
        state = self._states.get(key)
        if state is None or not _is_usual_wait(state.progress):
            self._queue.add(key)
        elif key not in self._with_turn:
            self._with_turn.add(key)
            now = asyncio.get_running_loop().time()
            self._queue.add_later(key, self._pace.wait_seconds(key[0], now=now))

    async def _write(self, key: Key) -> None:
        self._with_turn.discard(key)
        state = self._states.get(key)
        if state is None or state.progress is None:
            return
        run = self._workloads.run_of(state.launch.run)
        if run is None:
            return
        progress, state.written_at = state.progress, asyncio.get_running_loop().time()
        await self._writer.write(state.launch, progress, run=run)
        state.written, state.inputs = progress, ()
        self._on_written(key)


def is_written(state: JobState, wanted: Progress, run: Object) -> bool:
    """Whether the status says it, or was written so: the API's limits may have shortened the message."""
    status = run.get("status") or {}
    if not says(run, wanted.phase, wanted.reason, wanted.message):
        has_phase = (status.get("phase"), status.get("reason")) == (wanted.phase, wanted.reason)
        return has_phase and state.written == wanted
    return wanted.records is None or status.get("records") == wanted.records.model_dump(exclude_none=True)


def says(run: Object, phase: Phase, reason: Reason, message: str) -> bool:
    """Whether the run's status says exactly this."""
    status = run.get("status") or {}
    return (status.get("phase"), status.get("reason"), status.get("message")) == (phase, reason, message)


def says_start(run: Object, message: str) -> bool:
    """Whether the run's status says that it is running with this message, to which more may have been added since."""
    text = (run.get("status") or {}).get("message") or ""
    is_added_to = text.startswith(f"{message}; ")
    return says(run, Phase.RUNNING, Reason.RUNNING, text if is_added_to else message)


def write_due(state: JobState) -> float:
    """When the wanted status is to be written."""
    return max(state.written_at + STATUS_SECONDS, state.wanted_at + _patience_with(state.progress))


def _patience_with(progress: Progress | None) -> float:
    if progress is None or progress.phase is not Phase.PENDING or progress.is_warning:
        return 0.0
    return START_SECONDS if _is_usual_wait(progress) else SETTLE_SECONDS


def _is_usual_wait(progress: Progress | None) -> bool:
    return (
        progress is not None
        and progress.phase is Phase.PENDING
        and not progress.is_warning
        and progress.reason in USUAL_WAITS
    )

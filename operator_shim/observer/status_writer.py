"""Writes waiting reasons and progress to the status of a run.

The status as the informer has it is the condition of the write, so that no GET precedes a PATCH; on
a conflict the run is read and the decision made again. Never written: a terminal status, a status
that names another Job, and one that says what follows this Job.
"""

from dataclasses import dataclass
from datetime import datetime

from control.cluster.events import EventRecorder
from control.launches.observation import FOLLOW_A_LAUNCH, Launch
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_status import status_after
from inferrun.runner_report import ProgressLine
from inferrun.timestamps import parse, rfc3339


@dataclass(frozen=True, slots=True)
class ShownProgress:
    """What the status of a run under way should say."""

    phase: Phase
    reason: Reason
    message: str
    started_at: str = ""
    report: ProgressLine | None = None
    """What the runner last reported: the status has fields of the same names."""

    is_warning: bool = False


class StatusWriter:
    """Writes the statuses of runs under way, and the Events about what users should see."""

    def __init__(self, runs: RunStore, *, events: EventRecorder) -> None:
        self._runs = runs
        self._events = events

    async def write(self, launch: Launch, progress: ShownProgress, *, run: Object) -> None:
        """Write if the run's status is still about this launch; emit an Event for a start, and for
        a warning or the wait for the model if the reason is new: its message may change with every
        write. `run` is as the informer has it. Raises KubeError.
        """
        before: list[InferenceRunStatus] = []

        def decide(current: InferenceRun) -> InferenceRunStatus | None:
            before.append(current.status)
            return status_with(current, launch=launch, progress=progress, now=self._runs.now())

        ref = launch.run
        written = await self._runs.update_status(ref, decide, read=parse_run(run))
        if written.changed and is_worth_an_event(before[-1], progress):
            await self._events.record(
                ref,
                reason=progress.reason,
                message=progress.message,
                is_warning=progress.is_warning,
            )


def is_worth_an_event(before: InferenceRunStatus, progress: ShownProgress) -> bool:
    """Whether users should see an Event about this progress, given the status that it replaces."""
    has_started = progress.phase is Phase.RUNNING and before.phase is not Phase.RUNNING
    is_new = (before.phase, before.reason) != (progress.phase, progress.reason)
    return has_started or (
        is_new and (progress.is_warning or progress.reason is Reason.MODEL_NOT_READY)
    )


def status_with(
    run: InferenceRun, *, launch: Launch, progress: ShownProgress, now: datetime
) -> InferenceRunStatus | None:
    """The run's status with that progress; None if the status is not, or no longer, about this
    launch."""
    status = run.status
    if status.job_status is None or status.job_status.uid != launch.job_uid:
        return None
    if status.reason in FOLLOW_A_LAUNCH or status.phase is Phase.SUSPENDED:
        return None
    if (status.ended_launches or 0) >= launch.launch:
        return None
    since, known = progress.started_at or None, status.running_since
    if (
        launch.shards > 1
        and since is not None
        and known is not None
        and status.phase is progress.phase
    ):
        since = rfc3339(min(known, parse(since)))  # another Pod may represent the launch now
    return status_after(
        run,
        phase=progress.phase,
        reason=progress.reason,
        message=progress.message,
        now=now,
        cleared=("running_since", "pace"),
        running_since=since,
        attempt=launch.attempt,
        start_time=status.start_time or progress.started_at or None,
        **{
            name: value
            for name, value in progress.report or ()
            if name in InferenceRunStatus.model_fields
        },
    )

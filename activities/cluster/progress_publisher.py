"""Writes the status of a run that is being followed, and Events for its turning points; only on change."""

from collections import OrderedDict

from activities.cluster.events import EventRecorder
from activities.rules.diagnosis import Wait
from inferrun.control.run_status import status_after
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.runner_report import RecordCounts
from inferrun.timestamps import utc_now
from workflows.messages import FollowInput

MAX_REMEMBERED = 20_000
"""Number of runs whose last published state is kept in memory, so that an unchanged state costs no request."""


class ProgressPublisher:
    """Publishes what a worker's followers observe."""

    def __init__(self, runs: RunStore, *, events: EventRecorder) -> None:
        self._runs = runs
        self._events = events
        self._last: OrderedDict[str, tuple[object, ...]] = OrderedDict()

    async def publish_waiting(self, request: FollowInput, wait: Wait) -> None:
        """The run is Pending, with the reason and the fix."""
        state = (Phase.PENDING, wait.reason, wait.message)
        if self._last_published(request) == state:
            return
        await self._write(request, phase=Phase.PENDING, reason=wait.reason, message=wait.message)
        self._remember(request, state)
        if wait.is_warning:
            await self._events.record(request.run, reason=wait.reason, message=wait.message, is_warning=True)

    async def publish_running(self, request: FollowInput, *, started_at: str, records: RecordCounts | None) -> None:
        """The run is Running, with the counts so far."""
        state = (Phase.RUNNING, started_at, records)
        if self._last_published(request) == state:
            return
        message = f"attempt {request.attempt} is running in Job {request.job_name}"
        await self._write(
            request,
            phase=Phase.RUNNING,
            reason=Reason.RUNNING,
            message=message,
            started_at=started_at,
            records=records,
        )
        self._remember(request, state)
        if records is None:
            await self._events.record(request.run, reason=Reason.RUNNING, message=message, is_warning=False)

    def forget(self, request: FollowInput) -> None:
        """Publish everything again: another worker may have followed the run before."""
        self._last.pop(_key_of(request), None)

    async def _write(
        self,
        request: FollowInput,
        *,
        phase: Phase,
        reason: Reason,
        message: str,
        started_at: str | None = None,
        records: RecordCounts | None = None,
    ) -> None:
        def decide(run: InferenceRun) -> InferenceRunStatus | None:
            if run.status.job_status is None or run.status.job_status.name != request.job_name:
                return None  # a later launch has taken over
            return status_after(
                run,
                phase=phase,
                reason=reason,
                message=message,
                now=utc_now(),
                attempt=request.attempt,
                start_time=run.status.start_time or started_at,
                records=records.model_dump() if records else None,
            )

        await self._runs.update_status(request.run, decide)

    def _last_published(self, request: FollowInput) -> tuple[object, ...] | None:
        return self._last.get(_key_of(request))

    def _remember(self, request: FollowInput, state: tuple[object, ...]) -> None:
        key = _key_of(request)
        self._last[key] = state
        self._last.move_to_end(key)
        while len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)


def _key_of(request: FollowInput) -> str:
    return f"{request.run.uid}/{request.launch}"

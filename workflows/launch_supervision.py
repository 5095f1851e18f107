"""Supervises one launch of a run: follows its Job to a verdict within the run's clocks, and stops it when they expire."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityHandle

from inferrun.reasons import Reason
from inferrun.text import code_span
from inferrun.timestamps import rfc3339
from workflows import activity_options
from workflows.activity_execution import execute, start
from workflows.messages import FollowResult, FollowUntil, LaunchResult, StopInput, StopResult, Verdict, VerdictKind
from workflows.retry_policy import check_disruptions, success_of
from workflows.run_state import RunState

STOP_GRACE = 10
DEADLINE_GRACE = 5
"""Seconds between SIGTERM and SIGKILL: past its deadline a run gets less time than one that was cancelled."""

M = TypeVar("M")


class LaunchSupervision:
    """The supervision of one launch; `supervise` returns its verdict."""

    def __init__(self, state: RunState, launched: LaunchResult) -> None:
        self._state = state
        self._launched = launched

    async def supervise(self) -> Verdict:
        """Follow the Job to its end. While a lost Pod is being replaced, the run's clock is stopped."""
        while True:
            started = await self._follow_until_started()
            if isinstance(started, Verdict):
                return started
            self._state.started_at = started.started_at
            attempt = self._state.progress.attempt
            workflow.set_current_details(
                f"**Running** since {started.started_at} in Pod {code_span(started.pod_name)}, attempt {attempt}."
            )
            finished = await self._follow(FollowUntil.FINISHED, self._running_seconds_left)
            if finished is None:
                return await self._stop_at_deadline()
            if finished.verdict is not None:
                return await self._conclude(finished.verdict, must_stop=finished.must_stop)
            self._state.lose_pod(is_disrupted=finished.is_disrupted, now=workflow.now())
            exceeded = check_disruptions(self._state.disruptions, limit=self._launched.max_disruptions)
            if exceeded is not None:
                return await self._conclude(exceeded, must_stop=True)

    async def _follow_until_started(self) -> FollowResult | Verdict:
        """The start of the container, or the verdict if the launch ended before its start was seen."""
        started = await self._follow(FollowUntil.STARTED, self._pending_seconds_left)
        if started is None:
            return await self._stop_waiting()
        if started.verdict is not None:
            return await self._conclude(started.verdict, must_stop=started.must_stop)
        return started

    async def _stop_waiting(self) -> FollowResult | Verdict:
        """pendingTimeoutSeconds has expired: stop the Job, unless its container has started in the meantime."""
        request = self._state.stop_input(self._launched, grace=STOP_GRACE, only_if_waiting=True)
        stopped = await self._stop(request, because=Reason.PENDING_TIMEOUT)
        if stopped.started_at is not None:
            return FollowResult(started_at=stopped.started_at, pod_name=stopped.pod_name)
        if stopped.verdict is not None:
            return stopped.verdict
        waited = f"the run waited for more than {self._launched.pending_timeout_seconds} s (pendingTimeoutSeconds)"
        message = f"{waited}; last reason: {stopped.last_wait_message}" if stopped.last_wait_message else waited
        return Verdict(kind=VerdictKind.FAILED, reason=Reason.PENDING_TIMEOUT, message=message, may_retry=False)

    async def _stop_at_deadline(self) -> Verdict:
        """timeoutSeconds has expired: stop the Job. A container that had finished, or finishes in its grace, succeeded."""
        request = self._state.stop_input(self._launched, grace=DEADLINE_GRACE)
        stopped = await self._stop(request, because=Reason.DEADLINE_EXCEEDED)
        return success_of(stopped.verdict) or Verdict(
            kind=VerdictKind.OUT_OF_TIME,
            reason=Reason.DEADLINE_EXCEEDED,
            message=f"the run reached its timeoutSeconds of {self._state.timeout_seconds} s and was stopped",
            started_at=self._state.started_at,
            finished_at=rfc3339(workflow.now()),
        )

    async def _conclude(self, verdict: Verdict, *, must_stop: bool) -> Verdict:
        """The verdict, once no Pod of the launch is left; a success that the stop finds replaces it."""
        if not must_stop:
            return verdict
        request = self._state.stop_input(self._launched, grace=STOP_GRACE)
        stopped = await self._stop(request, because=verdict.reason)
        return success_of(stopped.verdict) or verdict

    async def _stop(self, request: StopInput, *, because: Reason) -> StopResult:
        summary = f"{because}: stop {request.job_name}"
        return await execute(activity_options.STOP, request, StopResult, summary=summary)

    async def _follow(self, until: FollowUntil, seconds_left: Callable[[], float | None]) -> FollowResult | None:
        """The follower's result, or None if the time expires first."""
        left = seconds_left()
        if left is not None and left <= 0:
            return None  # a handle cancelled before its first turn would look like a cancellation of the run
        request = self._state.follow_input(self._launched, until)
        summary = f"follow {self._launched.job_name} until {until}"
        handle = start(activity_options.FOLLOW, request, FollowResult, summary=summary)
        if await self._is_done_in_time(handle, seconds_left):
            return await handle
        handle.cancel()
        with suppress(ActivityError):  # the handle is cancelled at once, without waiting for the activity
            await handle
        return None

    async def _is_done_in_time(self, handle: ActivityHandle[M], seconds_left: Callable[[], float | None]) -> bool:
        while not handle.done():
            left = seconds_left()
            if left is not None and left <= 0:
                return False
            seen = self._state.signal_count
            try:
                await workflow.wait_condition(
                    lambda: handle.done() or self._state.signal_count != seen,  # noqa: B023 -- awaited in this turn
                    timeout=left,
                    timeout_summary=f"time limit of {self._launched.job_name}",
                )
            except TimeoutError:
                continue
        return True

    def _running_seconds_left(self) -> float | None:
        return self._state.running_seconds_left(now=workflow.now())

    def _pending_seconds_left(self) -> float | None:
        return self._state.pending_seconds_left(self._launched, now=workflow.now())

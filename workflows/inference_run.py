"""The life of one run: launch a Job, follow it, judge how it ended, try again or record the end.

The status that a user sees is written by activities; this code keeps the order of things and the clocks. The run's clock
(`timeoutSeconds`) runs while its container runs. An end is recorded exactly once: the activity that does so keeps a
terminal status that is there already. The workflow closes with the run's end; deletion is another workflow's.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import Field
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception
from temporalio.workflow import ActivityHandle

from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from workflows import activity_options, messages
from workflows.invoke import invoke, start
from workflows.messages import (
    AttemptRecord,
    FollowInput,
    FollowResult,
    FollowUntil,
    LaunchInput,
    LaunchResult,
    LaunchState,
    PublishInput,
    RecordInput,
    RecordResult,
    RunResult,
    SpecChanged,
    StopInput,
    StopResult,
    Verdict,
    VerdictKind,
)
from workflows.retry_policy import StepKind, add_attempt, judge_disruptions, next_step

RECHECK_SECONDS = 600
"""How often a run that waits without a Job looks by itself; the shim's signal is what it goes by."""

FIRST_RECHECK_SECONDS = 15
"""The first look by itself of a run that waits for what the shim does not see, a quota; doubled up to the above."""

UNSEEN_WAITS = (Reason.QUOTA_EXCEEDED, Reason.POD_REJECTED)

PENDING_GRACE = 10
DEADLINE_GRACE = 5
"""Seconds between SIGTERM and SIGKILL: past a deadline less than for a run that was cancelled."""

M = TypeVar("M")


class RunInput(RunRef):
    """A run, and where its life stands when the workflow is continued as new."""

    launch: int = 1
    attempt: int = 1
    seconds_used: float = 0
    timeout_seconds: int | None = Field(default=None, description="timeoutSeconds as edited under way")
    pending_since: str | None = Field(default=None, description="When it began to wait; None: at the run's creation")
    attempts: tuple[AttemptRecord, ...] = ()
    disruptions: int = 0

    @property
    def ref(self) -> RunRef:
        """The run alone."""
        return RunRef(namespace=self.namespace, name=self.name, uid=self.uid)


@workflow.defn(name=messages.RUN_WORKFLOW)
class InferenceRun:
    """Executes one run."""

    @workflow.init
    def __init__(self, state: RunInput) -> None:
        self._state = state
        self._looks = 0
        self._job: LaunchResult | None = None
        self._started_at: str | None = None
        self._unseen_waits = 0

    @workflow.signal(name=messages.LOOK_AGAIN_SIGNAL)
    def look_again(self) -> None:
        """Something that the run waits for may have changed."""
        self._looks += 1

    @workflow.signal(name=messages.SPEC_CHANGED_SIGNAL)
    def spec_changed(self, change: SpecChanged) -> None:
        """A field that acts under way was edited."""
        self._state = self._state.model_copy(update={"timeout_seconds": change.timeout_seconds})
        self._looks += 1

    @workflow.run
    async def run(self, _state: RunInput) -> RunResult:
        """From the first launch to the recorded end; fails with the run's reason as its type."""
        try:
            end = await self._live()
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            end = await self._end_cancelled()
            recorded = await self._record(end)
            if recorded.phase is not Phase.SUCCEEDED:
                raise
            return self._close(end, recorded)  # the cancellation came too late
        return self._close(end, await self._record(end))

    async def _live(self) -> RecordInput:
        while True:
            launched = await self._launch()
            if isinstance(launched, RecordInput):
                return launched
            verdict = self._timed(await self._watch(launched))
            step = next_step(
                verdict,
                attempt=self._state.attempt,
                backoff_limit=launched.backoff_limit,
                seconds_left=self._seconds_left(launched),
            )
            self._keep_attempt(launched, verdict, step.reason)
            if step.kind is not StepKind.LAUNCH:
                phase = Phase.SUCCEEDED if step.kind is StepKind.SUCCEED else Phase.FAILED
                return self._end(verdict.model_copy(update={"message": step.message}), phase, step.reason)
            if verdict.kind is VerdictKind.NEVER_RAN:  # its waiting goes on
                self._begin_waiting(self._pending_since(launched))
            else:
                self._begin_waiting(_rfc3339(workflow.now() + timedelta(seconds=step.delay)))
            await self._wait_before_next(
                step.delay, counted=step.counted, limit=launched.backoff_limit, why=step.message
            )

    async def _launch(self) -> LaunchResult | RecordInput:
        """A Job that runs, or the end of the run; waits for as long as the config is not there or not right."""
        while True:
            looks = self._looks
            launched = await self._create()
            if launched.state is LaunchState.LAUNCHED:
                workflow.set_current_details(f"**Pending**: Job `{launched.job_name}` was created.")
                return launched
            if launched.state is LaunchState.CANCELLED:
                return await self._end_cancelled()
            if launched.state is not LaunchState.WAITING:
                reason = Reason.RUN_DELETED if launched.state is LaunchState.GONE else launched.reason
                return self._end_now(reason, launched.message)
            workflow.set_current_details(f"**Pending** ({launched.reason}): {launched.message}")
            if not await self._wait_for_a_look(launched, looks):
                return self._end_now(Reason.PENDING_TIMEOUT, f"it waited too long: {launched.message}")
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state)

    async def _create(self) -> LaunchResult:
        """What became of the launch. Cancellation waits for that: a Job that may exist is never left alone."""
        launching = start(activity_options.LAUNCH, self._launch_input(), LaunchResult, summary=self._launch_summary())
        try:
            launched = await asyncio.shield(launching)
        except asyncio.CancelledError:
            self._take_over(await launching)
            raise
        self._take_over(launched)
        return launched

    def _take_over(self, launched: LaunchResult) -> None:
        if launched.job_name:
            self._job = launched
        if launched.state is LaunchState.LAUNCHED:
            self._started_at = None
            update = {
                "launch": launched.launch,
                "attempt": launched.attempt,
                "attempts": launched.attempts,
                "seconds_used": launched.seconds_used,
            }
            self._state = self._state.model_copy(update=update)

    async def _wait_for_a_look(self, launched: LaunchResult, looks: int) -> bool:
        """Wait for a signal since the count was `looks`, or the re-check; False once the time for waiting is over."""
        left = self._pending_seconds_left(launched)
        if left is not None and left <= 0:
            return False
        recheck = self._recheck_seconds(launched.reason)
        seconds = recheck if left is None else min(recheck, left)
        try:
            await workflow.wait_condition(
                lambda: self._looks != looks, timeout=seconds, timeout_summary=f"waits: {launched.reason}"
            )
        except TimeoutError:
            left = self._pending_seconds_left(launched)
            return left is None or left > 0
        return True

    def _recheck_seconds(self, reason: Reason) -> int:
        if reason not in UNSEEN_WAITS:
            self._unseen_waits = 0
            return RECHECK_SECONDS
        self._unseen_waits += 1
        return int(min(FIRST_RECHECK_SECONDS * 2 ** (self._unseen_waits - 1), RECHECK_SECONDS))

    async def _watch(self, launched: LaunchResult) -> Verdict:
        """Follow the Job to its end, within the run's clocks; they stand still while a Pod that was taken is replaced."""
        while True:
            started = await self._until_started(launched)
            if isinstance(started, Verdict):
                return started
            self._started_at = started.started_at
            workflow.set_current_details(
                f"**Running** since {started.started_at} in Pod `{started.pod_name}`, attempt {self._state.attempt}."
            )
            finished = await self._follow(launched, FollowUntil.FINISHED, lambda: self._seconds_left(launched))
            if finished is None:
                return await self._stop_at_deadline(launched)
            if finished.verdict is not None:
                return await self._judged(launched, finished.verdict, must_stop=finished.must_stop)
            self._wait_again(is_disrupted=finished.is_disrupted)
            too_often = judge_disruptions(self._state.disruptions, limit=launched.max_disruptions)
            if too_often is not None:
                return await self._judged(launched, too_often, must_stop=True)

    def _wait_again(self, *, is_disrupted: bool) -> None:
        """Its Pod was taken away: the clock stops, the waiting begins."""
        self._timed(Verdict(kind=VerdictKind.NEVER_RAN, reason=Reason.JOB_CREATED))
        self._begin_waiting(_rfc3339(workflow.now()))
        if is_disrupted:
            self._state = self._state.model_copy(update={"disruptions": self._state.disruptions + 1})

    async def _until_started(self, launched: LaunchResult) -> FollowResult | Verdict:
        """When the container started; or the verdict of a launch that ended before that was seen."""
        started = await self._follow(launched, FollowUntil.STARTED, lambda: self._pending_seconds_left(launched))
        if started is None:
            return await self._stop_waiting(launched)
        if started.verdict is not None:
            return await self._judged(launched, started.verdict, must_stop=started.must_stop)
        return started

    async def _stop_waiting(self, launched: LaunchResult) -> FollowResult | Verdict:
        """The time for waiting is over; a container that has started meanwhile goes on."""
        request = self._stop_input(launched, PENDING_GRACE).model_copy(update={"only_if_waiting": True})
        summary = f"{Reason.PENDING_TIMEOUT}: end {launched.job_name}"
        stopped = await invoke(activity_options.STOP, request, StopResult, summary=summary)
        if stopped.started_at is not None:
            return FollowResult(started_at=stopped.started_at, pod_name=stopped.pod_name)
        if stopped.verdict is not None:
            return stopped.verdict
        waited = f"it waited more than {launched.pending_timeout_seconds} s (pendingTimeoutSeconds)"
        message = f"{waited}; last: {stopped.last_wait_message}" if stopped.last_wait_message else waited
        return Verdict(kind=VerdictKind.FAILED, reason=Reason.PENDING_TIMEOUT, message=message, may_retry=False)

    async def _stop_at_deadline(self, launched: LaunchResult) -> Verdict:
        """End the Job at the run's deadline; a container that had done its work, or did so in its grace, has succeeded."""
        summary = f"{Reason.DEADLINE_EXCEEDED}: end {launched.job_name}"
        stopped = await invoke(
            activity_options.STOP, self._stop_input(launched, DEADLINE_GRACE), StopResult, summary=summary
        )
        return _success(stopped) or Verdict(
            kind=VerdictKind.OUT_OF_TIME,
            reason=Reason.DEADLINE_EXCEEDED,
            message=f"it ran for its timeoutSeconds of {self._timeout(launched)} s and was stopped",
            started_at=self._started_at,
            finished_at=_rfc3339(workflow.now()),
        )

    async def _judged(self, launched: LaunchResult, verdict: Verdict, *, must_stop: bool) -> Verdict:
        """The verdict, once no Pod of the launch is left that could still do something; one that did its work counts."""
        if not must_stop:
            return verdict
        summary = f"{verdict.reason}: end {launched.job_name}"
        stopped = await invoke(
            activity_options.STOP, self._stop_input(launched, PENDING_GRACE), StopResult, summary=summary
        )
        return _success(stopped) or verdict

    async def _follow(
        self, launched: LaunchResult, until: FollowUntil, seconds_left: Callable[[], float | None]
    ) -> FollowResult | None:
        """The follower's result, or None when the time ran out first."""
        left = seconds_left()
        if left is not None and left <= 0:
            return None  # a handle that is cancelled before its first turn would look like the run's cancellation
        handle = start(
            activity_options.FOLLOW,
            self._follow_input(launched, until),
            FollowResult,
            summary=f"{launched.job_name}: until {until}",
        )
        if await self._done_in_time(handle, seconds_left, launched):
            return await handle
        handle.cancel()
        with suppress(ActivityError):  # cancelled at once: the workflow does not wait for the follower itself
            await handle
        return None

    async def _done_in_time(
        self, handle: ActivityHandle[M], seconds_left: Callable[[], float | None], launched: LaunchResult
    ) -> bool:
        while not handle.done():
            left = seconds_left()
            if left is not None and left <= 0:
                return False
            looks = self._looks
            try:
                await workflow.wait_condition(
                    lambda: handle.done() or self._looks != looks,  # noqa: B023 -- waited for within the turn
                    timeout=left,
                    timeout_summary=f"time limit of {launched.job_name}",
                )
            except TimeoutError:
                continue
        return True

    async def _wait_before_next(self, delay: int, *, counted: bool, limit: int, why: str) -> None:
        attempt = self._state.attempt + 1 if counted else self._state.attempt
        update = {"launch": self._state.launch + 1, "attempt": attempt}
        self._state = self._state.model_copy(update=update)
        message = f"attempt {attempt} of {limit + 1} starts in {delay} s; before: {why}"
        request = PublishInput(
            run=self._state.ref,
            phase=Phase.PENDING,
            reason=Reason.RETRY_BACKOFF,
            message=message,
            attempt=attempt,
            attempts=self._state.attempts,
            warning=True,
        )
        published = await invoke(
            activity_options.PUBLISH, request, RecordResult, summary="wait before the next attempt"
        )
        if published.gone:
            return  # the next launch finds that there is no run any more
        workflow.set_current_details(f"**Pending**: {message}")
        await workflow.sleep(delay, summary=f"back-off before attempt {attempt}")

    async def _end_cancelled(self) -> RecordInput:
        """The end of a run that was cancelled: no Pod is left when it is recorded."""
        if self._job is not None:
            request = self._stop_input(self._job, PENDING_GRACE)
            stopped = await invoke(activity_options.STOP, request, StopResult, summary="cancelled: end the Job")
            success = _success(stopped)
            if success is not None:
                return self._end(success, Phase.SUCCEEDED, Reason.SUCCEEDED)
        return self._end_now(Reason.CANCELLED, "it was cancelled")

    async def _record(self, end: RecordInput) -> RecordResult:
        """What the status says now. A cancellation that comes while it is written is too late."""
        recording = start(activity_options.RECORD, end, RecordResult, summary=f"record {end.phase} ({end.reason})")
        try:
            return await asyncio.shield(recording)
        except asyncio.CancelledError:
            return await recording

    def _close(self, end: RecordInput, recorded: RecordResult) -> RunResult:
        """The workflow's result; a run that failed fails its workflow, with the reason as the failure's type."""
        result = RunResult(
            namespace=end.run.namespace,
            name=end.run.name,
            uid=end.run.uid,
            phase=recorded.phase,
            reason=recorded.reason,
            message=recorded.message,
            exit_code=end.exit_code,
            records=end.records,
            delivery=end.delivery,
            output=end.output,
        )
        workflow.set_current_details(f"**{recorded.phase}** ({recorded.reason}): {recorded.message}")
        if recorded.phase is Phase.FAILED and not recorded.gone:
            text = f"{recorded.reason}: {recorded.message}"
            raise ApplicationError(text, result, type=str(recorded.reason), non_retryable=True)
        return result

    def _launch_input(self) -> LaunchInput:
        state = self._state
        return LaunchInput(
            run=state.ref,
            launch=state.launch,
            attempt=state.attempt,
            seconds_used=state.seconds_used,
            timeout_seconds=state.timeout_seconds,
            attempts=state.attempts,
        )

    def _launch_summary(self) -> str:
        return f"attempt {self._state.attempt}: Job" if self._state.launch > 1 else "contract and Job"

    def _follow_input(self, launched: LaunchResult, until: FollowUntil) -> FollowInput:
        return FollowInput(
            run=self._state.ref,
            job_name=launched.job_name,
            job_uid=launched.job_uid,
            launch=self._state.launch,
            attempt=self._state.attempt,
            until=until,
        )

    def _stop_input(self, launched: LaunchResult, grace: int) -> StopInput:
        return StopInput(run=self._state.ref, job_name=launched.job_name, job_uid=launched.job_uid, grace_seconds=grace)

    def _keep_attempt(self, launched: LaunchResult, verdict: Verdict, reason: Reason) -> None:
        record = AttemptRecord(
            launch=self._state.launch,
            attempt=self._state.attempt,
            job_name=launched.job_name,
            start_time=verdict.started_at,
            completion_time=verdict.finished_at,
            exit_code=verdict.exit_code,
            reason=reason,
            message=verdict.message[:256],
        )
        self._state = self._state.model_copy(update={"attempts": add_attempt(self._state.attempts, record)})

    def _end(self, verdict: Verdict, phase: Phase, reason: Reason) -> RecordInput:
        job = self._job
        return RecordInput(
            run=self._state.ref,
            phase=phase,
            reason=reason,
            message=verdict.message,
            attempt=self._state.attempt,
            attempts=self._state.attempts,
            exit_code=verdict.exit_code,
            records=verdict.records,
            delivery=verdict.delivery,
            output=verdict.output,
            started_at=self._state.attempts[0].start_time if self._state.attempts else self._started_at,
            finished_at=verdict.finished_at,
            job_name=job.job_name if job else "",
            job_uid=job.job_uid if job else "",
        )

    def _end_now(self, reason: Reason, message: str) -> RecordInput:
        """An end that no Job's verdict stands behind."""
        verdict = Verdict(kind=VerdictKind.FAILED, reason=reason, message=message)
        return self._end(verdict, Phase.FAILED, reason)

    def _timed(self, verdict: Verdict) -> Verdict:
        """Add the launch's seconds to the run's clock, and its times to the verdict where it lacks them."""
        started = verdict.started_at or self._started_at
        if started is None:
            return verdict
        finished = verdict.finished_at or _rfc3339(workflow.now())
        used = max(0.0, (_parse(finished) - _parse(started)).total_seconds())
        self._state = self._state.model_copy(update={"seconds_used": self._state.seconds_used + used})
        self._started_at = None
        return verdict.model_copy(update={"started_at": started, "finished_at": finished})

    def _begin_waiting(self, since: str) -> None:
        self._state = self._state.model_copy(update={"pending_since": since})

    def _timeout(self, launched: LaunchResult) -> int:
        edited = self._state.timeout_seconds
        return launched.timeout_seconds if edited is None else edited

    def _seconds_left(self, launched: LaunchResult) -> float | None:
        """What is left of the run's clock; None without limit."""
        limit = self._timeout(launched)
        if not limit:
            return None
        running = (workflow.now() - _parse(self._started_at)).total_seconds() if self._started_at else 0.0
        return limit - self._state.seconds_used - running

    def _pending_seconds_left(self, launched: LaunchResult) -> float | None:
        if not launched.pending_timeout_seconds:
            return None
        waited = (workflow.now() - _parse(self._pending_since(launched))).total_seconds()
        return launched.pending_timeout_seconds - waited

    def _pending_since(self, launched: LaunchResult) -> str:
        """When it began to wait: a launch that never ran does not begin anew."""
        return self._state.pending_since or launched.pending_since


def _success(stopped: StopResult) -> Verdict | None:
    """The verdict on a Job that had done its work before it was stopped; None for every other."""
    verdict = stopped.verdict
    return verdict if verdict is not None and verdict.kind is VerdictKind.SUCCEEDED else None


def _parse(instant: str) -> datetime:
    return datetime.fromisoformat(instant)


def _rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

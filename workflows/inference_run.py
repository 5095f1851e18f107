"""The life of a run: launch a Job, supervise it, decide what follows from its end, launch again or record the outcome.

This code determines the order of steps and keeps the clocks; activities write the status that users see. The outcome is
recorded exactly once: the activity keeps a terminal status that already exists. The workflow closes when the run ends;
deleting the run is the task of another workflow.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from inferrun.reasons import Phase, Reason
from inferrun.run_result import RunResult
from inferrun.text import code_span
from inferrun.timestamps import rfc3339
from workflows import activity_options, messages
from workflows.activity_execution import execute, execute_locally, start
from workflows.activity_options import ActivityOptions
from workflows.launch_following import TURN_SUMMARY, LaunchFollowing
from workflows.launch_signals import LaunchSignals
from workflows.launch_supervision import STOP_GRACE, LaunchSupervision
from workflows.messages import (
    LATEST_LIFECYCLE,
    SIGNALLED_LIFECYCLE,
    LaunchResult,
    LaunchState,
    PublishInput,
    ReadSpecInput,
    RecordInput,
    RunInput,
    SpecChanged,
    SpecResult,
    StatusResult,
    StopResult,
    Verdict,
    VerdictKind,
    Woken,
)
from workflows.origin import has_own_origin
from workflows.output_verification import find_output, verdict_with
from workflows.retry_policy import Step, StepKind, next_step, success_of
from workflows.run_state import RunState
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, Started

RECHECK_SECONDS = 600
"""After this time a run that waits without a Job checks again, normally in vain: a signal from the shim arrives first. The interval
is doubled up to MAX_RECHECK_SECONDS, so that a wait of four weeks costs about 120 checks and 700 history events.
"""

MAX_RECHECK_SECONDS = 6 * 3600

FIRST_RECHECK_SECONDS = 15
"""The first interval if the run waits for something that the shim does not watch; doubled up to RECHECK_SECONDS."""

SUSPENDED_RECHECK_SECONDS = 6 * 3600
"""The same for a run that is suspended: only an edit resumes it, and edits are signalled until they are acknowledged."""

ENDS_OF_CROWDS = (Reason.PENDING_TIMEOUT, Reason.CANCELLED)
"""The outcomes of runs without a Job for which no queue of ours determines the moment."""

UNWATCHED_WAITS = (
    Reason.QUOTA_EXCEEDED,
    Reason.POD_REJECTED,
    Reason.CONFIG_NAMESPACE_NOT_ALLOWED,
    Reason.MODEL_NAMESPACE_NOT_ALLOWED,
)

R = TypeVar("R")


class NewerLifecycle(Exception):
    """The run was started by a later version. This is no failure of the run: the workflow's task fails, and Temporal
    retries it until a worker of that version takes it.
    """

    def __init__(self, lifecycle: int) -> None:
        super().__init__(
            f"the run has lifecycle {lifecycle}, this worker knows {LATEST_LIFECYCLE}; upgrade all workers to the version of "
            "the shim"
        )


@workflow.defn(name=messages.RUN_WORKFLOW)
class InferenceRun:
    """Executes one run."""

    @workflow.init
    def __init__(self, given: RunInput) -> None:
        # How far a run has got comes from the workflow that continues as new, which is checked before it is relied on.
        self._is_continued = workflow.info().continued_run_id is not None
        self._state = RunState(given if self._is_continued else given.at_start())
        self._signals = LaunchSignals()
        self._vain_checks = 0
        """How often in a row the run has checked without a signal and still waits."""
        self._unread_edits = 0

    @workflow.signal(name=messages.LOOK_AGAIN_SIGNAL)
    def look_again(self, woken: Woken | None = None) -> None:
        """Something that the run waits for may have changed."""
        self._state.look_again(woken)

    @workflow.signal(name=messages.SPEC_CHANGED_SIGNAL, unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def spec_changed(self, change: SpecChanged) -> None:
        """A field that takes effect while the run is in progress was edited. Anybody can send signals: the spec is read."""
        if not self._is_signalled:
            self._apply(change)
            return
        self._unread_edits += 1
        if self._unread_edits > 1:
            return  # the handler of an earlier signal reads again
        while self._unread_edits:
            seen = self._unread_edits
            request = ReadSpecInput(run=self._state.run)
            read = await execute_locally(activity_options.READ_SPEC, request, SpecResult, summary="the spec was edited")
            if read.spec is not None:
                self._apply(read.spec)
            self._unread_edits -= seen

    def _apply(self, change: SpecChanged) -> None:
        self._state.edit_spec(change)
        if self._state.job is not None:
            self._signals.request_inspection(self._state.job.job_uid)  # starts are not signalled without a limit

    @workflow.signal(name=STARTED_SIGNAL)
    def started(self, signal: Started) -> None:
        """The container of a launch is running: the run's clock starts."""
        self._signals.add_started(signal)
        self._state.signal_count += 1

    @workflow.signal(name=ENDED_SIGNAL)
    def ended(self, signal: Ended) -> None:
        """A launch should be inspected."""
        self._signals.add_ended(signal)
        self._state.signal_count += 1

    @workflow.run
    async def run(self, given: RunInput) -> RunResult:
        """Execute the run until its outcome is recorded; a failed run fails the workflow with its reason as the type."""
        if given.lifecycle > LATEST_LIFECYCLE:
            raise NewerLifecycle(given.lifecycle)
        try:
            if self._is_continued:
                await self._check_origin(given)
            outcome = await self._execute()
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            outcome = await self._cancel()
            recorded = _status_at_end(outcome, await self._record(outcome))
            if recorded.phase is not Phase.SUCCEEDED:
                raise
            return self._close(outcome, recorded)  # the run succeeded before the cancellation took effect
        return self._close(outcome, _status_at_end(outcome, await self._record(outcome)))

    async def _check_origin(self, given: RunInput) -> None:
        """Begin anew if another program has passed on the state: the status knows what is needed. Cancellation waits for it."""
        checking = asyncio.create_task(has_own_origin())
        try:
            is_own = await asyncio.shield(checking)
        except asyncio.CancelledError:
            if not await checking:
                self._state = RunState(given.at_start())
            raise
        if not is_own:
            self._state = RunState(given.at_start())

    async def _execute(self) -> RecordInput:
        """Launch until the run succeeds or must not be retried; returns the outcome to record."""
        while True:
            launched = self._state.take_following() or await self._launch()
            if isinstance(launched, RecordInput):
                return launched
            verdict = await self._supervise(launched)
            verdict = self._state.finish_launch(verdict, now=self._now)
            self._state.count_commits(verdict)
            verdict = await self._verify(verdict, is_final=self._step_after(verdict, launched).kind is StepKind.FAIL)
            step = self._step_after(verdict, launched)
            self._state.add_attempt(launched, verdict, step.reason)
            if step.kind is not StepKind.LAUNCH:
                phase = Phase.SUCCEEDED if step.kind is StepKind.SUCCEED else Phase.FAILED
                return self._state.outcome(verdict.model_copy(update={"message": step.message}), phase, step.reason)
            self._begin_waiting(launched, verdict, delay=step.delay)
            has_waited = verdict.kind is VerdictKind.NEVER_RAN
            await self._back_off(step, limit=launched.backoff_limit, has_waited=has_waited)
            if self._is_signalled:  # workflows of earlier versions replay without this
                self._limit_history()

    def _step_after(self, verdict: Verdict, launched: LaunchResult) -> Step:
        return next_step(
            verdict,
            attempt=self._state.progress.counted_attempts,
            backoff_limit=launched.backoff_limit,
            seconds_left=self._state.running_seconds_left(now=self._now),
        )

    async def _verify(self, verdict: Verdict, *, is_final: bool) -> Verdict:
        """The verdict, after the store was asked if the launches leave open whether the output is committed."""
        if not self._is_signalled or success_of(verdict) is not None:
            return verdict
        if not self._state.must_verify(verdict, is_final=is_final):
            return verdict
        finding = await find_output(self._state, self._signals, because=verdict.message, is_final=is_final)
        return verdict_with(finding, verdict)

    async def _fail(self, reason: Reason, message: str, *, is_unclear: bool = False) -> RecordInput:
        """The outcome of a run that ends without the verdict on a launch."""
        failed = Verdict(kind=VerdictKind.FAILED, reason=reason, message=message, is_unclear=is_unclear)
        verdict = await self._verify(failed, is_final=True)
        phase = Phase.SUCCEEDED if success_of(verdict) is not None else Phase.FAILED
        return self._state.outcome(verdict, phase, verdict.reason)

    async def _supervise(self, launched: LaunchResult) -> Verdict:
        if self._is_signalled:
            return await LaunchFollowing(self._state, launched, self._signals).supervise()
        return await LaunchSupervision(self._state, launched).supervise()

    @property
    def _is_signalled(self) -> bool:
        """Whether launches are followed by signals; workflows of earlier versions poll in an activity."""
        return self._state.lifecycle >= SIGNALLED_LIFECYCLE

    @property
    def _now(self) -> datetime:
        """By the clock of the API server, as are the times that it is compared with."""
        return self._state.cluster_time(workflow.now())

    def _begin(self, options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str) -> Awaitable[R]:
        """Start an activity, so that it can be shielded from cancellation."""
        if self._is_signalled:
            return asyncio.create_task(execute_locally(options, argument, result, summary=summary))
        return start(options, argument, result, summary=summary)

    async def _launch(self) -> LaunchResult | RecordInput:
        """A launched Job, or the outcome of a run that cannot be launched; waits while the config is missing or invalid."""
        while True:
            seen = self._state.edit_count
            launched = await self._create_job()
            if launched.state is LaunchState.LAUNCHED:
                workflow.set_current_details(f"**Pending**: Job {code_span(launched.job_name)} was created.")
                return launched
            if launched.state is LaunchState.CANCELLED:
                return await self._cancel()
            if launched.state is LaunchState.SUSPENDED:
                await self._wait_until_resumed(launched, seen)
                continue
            if launched.state is not LaunchState.WAITING:
                if launched.state is LaunchState.REFUSED:
                    return await self._fail(launched.reason, launched.message)
                reason = Reason.RUN_DELETED if launched.state is LaunchState.GONE else launched.reason
                return self._state.failure(reason, launched.message)
            workflow.set_current_details(f"**Pending** ({launched.reason}): {code_span(launched.message)}")
            if not await self._wait_for_change(launched, seen):
                message = f"the run waited longer than pendingTimeoutSeconds: {launched.message}"
                return await self._fail(Reason.PENDING_TIMEOUT, message)
            self._limit_history()

    def _limit_history(self) -> None:
        if workflow.info().is_continue_as_new_suggested():
            workflow.continue_as_new(self._state.continued())

    async def _create_job(self) -> LaunchResult:
        """The result of the launch. Cancellation waits for it, so that no Job is left behind."""
        summary, asked = self._launch_summary(), workflow.now()
        launching = self._begin(activity_options.LAUNCH, self._state.begin_launch(), LaunchResult, summary=summary)
        try:
            launched = await asyncio.shield(launching)
        except asyncio.CancelledError:
            self._accept(await launching, asked=asked)
            raise
        self._accept(launched, asked=asked)
        return launched

    def _accept(self, launched: LaunchResult, *, asked: datetime) -> None:
        self._state.set_clock(launched.cluster_time, asked=asked, now=workflow.now())
        self._state.accept_launch(launched)

    def _launch_summary(self) -> str:
        progress = self._state.progress
        if progress.launch == 1:
            return "write the contract, create the Job"
        return f"create the Job of attempt {progress.attempt}"

    async def _wait_for_change(self, launched: LaunchResult, seen: int) -> bool:
        """Wait for a signal after the first `seen` ones, or for the next check; False once pendingTimeoutSeconds expires."""
        left = self._state.pending_seconds_left(launched, now=self._now)
        if left is not None and left <= 0:
            return False
        recheck = self._recheck_seconds(launched)
        seconds = recheck if left is None else min(recheck, left)
        try:
            await workflow.wait_condition(
                lambda: self._state.edit_count != seen, timeout=seconds, timeout_summary=f"waiting: {launched.reason}"
            )
        except TimeoutError:
            self._vain_checks += 1
            left = self._state.pending_seconds_left(launched, now=self._now)
            return left is None or left > 0
        self._vain_checks = 0
        return True

    async def _wait_until_resumed(self, launched: LaunchResult, seen: int) -> None:
        """Wait for an edit after the first `seen` ones. Time for which a run is suspended is neither waiting nor running."""
        workflow.set_current_details(f"**Suspended**: {code_span(launched.message)}")
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._state.edit_count != seen,
                timeout=SUSPENDED_RECHECK_SECONDS,
                timeout_summary="suspended",
            )
        self._state.wait_since(rfc3339(self._now))
        self._limit_history()

    def _recheck_seconds(self, launched: LaunchResult) -> int:
        first, last = RECHECK_SECONDS, MAX_RECHECK_SECONDS
        if launched.is_unwatched or launched.reason in UNWATCHED_WAITS:
            first, last = FIRST_RECHECK_SECONDS, RECHECK_SECONDS
        return int(min(first * 2 ** min(self._vain_checks, 30), last))

    def _begin_waiting(self, launched: LaunchResult, verdict: Verdict, *, delay: int) -> None:
        """Restart pendingTimeoutSeconds after the back-off, unless the launch never ran: then the run was waiting already."""
        if verdict.kind is VerdictKind.NEVER_RAN:
            self._state.wait_since(self._state.pending_since(launched))
        else:
            self._state.wait_since(rfc3339(self._now + timedelta(seconds=delay)))

    async def _back_off(self, step: Step, *, limit: int, has_waited: bool) -> None:
        """Publish why the run waits for its next launch, and wait."""
        ended_launches = self._state.progress.launch
        self._state.next_launch(is_counted=step.counted, has_waited=has_waited)
        if not step.delay:
            return  # it was suspended: the next launch says so
        attempt = self._state.progress.attempt
        of = limit + 1 + self._state.progress.uncounted
        message = f"attempt {attempt} of {of} starts in {step.delay} s; the last launch ended with: {step.message}"
        request = PublishInput(
            run=self._state.run,
            phase=Phase.PENDING,
            reason=Reason.RETRY_BACKOFF,
            message=message,
            attempt=attempt,
            uncounted=self._state.progress.uncounted,
            attempts=self._state.progress.attempts,
            ended_launches=ended_launches,
            seconds_used=self._state.progress.seconds_used,
            warning=not has_waited,
            ended_job=self._state.job.job_name if self._state.job else "",
            discarded_job_uid=self._state.job.job_uid if self._state.job and has_waited else "",
        )
        published = await self._begin(activity_options.PUBLISH, request, StatusResult, summary="publish the back-off")
        if published.gone:
            return  # the next launch finds that the run was deleted
        workflow.set_current_details(f"**Pending**: {code_span(message)}")
        await self._sleep_unless_suspended(step.delay, summary=f"back-off before attempt {attempt}")

    async def _sleep_unless_suspended(self, seconds: int, *, summary: str) -> None:
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._is_signalled and self._state.is_suspended, timeout=seconds, timeout_summary=summary
            )

    async def _cancel(self) -> RecordInput:
        """Stop the Job and wait until no Pod is left; returns the outcome, which is a success if the Job had succeeded."""
        is_unclear, job = False, self._state.job
        if job is not None:
            verdict = await self._stop_job(job)
            if success_of(verdict) is not None and verdict is not None:
                return self._state.outcome(verdict, Phase.SUCCEEDED, verdict.reason)
            is_unclear = verdict is not None and verdict.is_unclear
        return await self._fail(Reason.CANCELLED, "the run was cancelled", is_unclear=is_unclear)

    async def _stop_job(self, job: LaunchResult) -> Verdict | None:
        """Stop the Job; how it ended, if that is known."""
        if self._is_signalled:
            following = LaunchFollowing(self._state, job, self._signals)
            followed = await following.stop(grace=STOP_GRACE, because=Reason.CANCELLED)
            self._state.list_cancelled(job, followed.report, now=self._now)
            return followed.report.verdict
        request = self._state.stop_input(job, grace=STOP_GRACE)
        stopped = await execute(activity_options.STOP, request, StopResult, summary="cancelled: stop the Job")
        return stopped.verdict

    async def _record(self, outcome: RecordInput) -> StatusResult:
        """The status after the outcome was recorded. A cancellation that arrives meanwhile has no effect.

        Hundreds of runs that wait without a Job may end at the same moment: most of them wait for the turn of their namespace.
        """
        if not (self._is_signalled and self._state.job is None and outcome.reason in ENDS_OF_CROWDS):
            return await self._record_at_once(outcome)
        recorded = await self._record_at_once(outcome.model_copy(update={"takes_turn": True}))
        if recorded.turn_in_seconds <= 0:
            return recorded
        waiting = asyncio.create_task(workflow.sleep(recorded.turn_in_seconds, summary=TURN_SUMMARY))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await waiting
        return await self._record_at_once(outcome)

    async def _record_at_once(self, outcome: RecordInput) -> StatusResult:
        summary = f"record {outcome.phase} ({outcome.reason})"
        recording = self._begin(activity_options.RECORD, outcome, StatusResult, summary=summary)
        try:
            return await asyncio.shield(recording)
        except asyncio.CancelledError:
            return await recording

    def _close(self, outcome: RecordInput, recorded: StatusResult) -> RunResult:
        """The workflow's result; raises ApplicationError with the reason as its type if the run failed."""
        result = RunResult(
            namespace=outcome.run.namespace,
            name=outcome.run.name,
            uid=outcome.run.uid,
            phase=recorded.phase,
            reason=recorded.reason,
            message=recorded.message,
            exit_code=outcome.exit_code,
            records=outcome.records,
            usage=outcome.usage,
            delivery=outcome.delivery,
            output=outcome.output,
            duration=recorded.duration,
        )
        workflow.set_current_details(f"**{recorded.phase}** ({recorded.reason}): {code_span(recorded.message)}")
        if recorded.phase is Phase.FAILED and not recorded.gone:
            text = f"{recorded.reason}: {recorded.message}"
            raise ApplicationError(text, result, type=str(recorded.reason), non_retryable=True)
        return result


def _status_at_end(outcome: RecordInput, recorded: StatusResult) -> StatusResult:
    """The status with which the run ended. One that succeeded has done so even if it is deleted before the workflow closes."""
    if not recorded.gone or outcome.phase is not Phase.SUCCEEDED:
        return recorded
    ended = {"phase": outcome.phase, "reason": outcome.reason, "message": outcome.message}
    return recorded.model_copy(update=ended)

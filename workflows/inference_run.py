"""The life of a run: launch a Job, supervise it, decide what follows from its end, launch again or
record the outcome.

This code determines the order of steps and keeps the clocks; activities write the status that users
see. The outcome is recorded exactly once: the activity keeps a terminal status that already exists.
The workflow closes when the run ends; deleting the run is the task of another workflow.
"""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from inferrun.launches.retry_policy import RunStep, StepKind, concluded, next_step, success_of
from inferrun.launches.verdict import Produced, Verdict, VerdictKind
from inferrun.launches.verification_timing import VERIFICATION
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.stop_timing import STOP
from inferrun.text import code_span
from inferrun.timestamps import rfc3339
from workflows import activity_options, messages
from workflows.activity_execution import execute_locally, has_own_origin, uninterrupted, wait_until
from workflows.backfill import BackfillFollowing
from workflows.launch_following import LaunchFollowing
from workflows.messages import (
    LaunchResult,
    LaunchState,
    PublishInput,
    RecordInput,
    RunInput,
    RunRequest,
    SpecChanged,
    SpecResult,
    StatusResult,
    VerifyResult,
)
from workflows.run_controls import RunControls, close
from workflows.run_state import RunState
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, LaunchSignals, Started
from workflows.timing import RECHECKS

UNWATCHED_WAITS = (
    Reason.QUOTA_EXCEEDED,
    Reason.POD_REJECTED,
    Reason.CONFIG_NAMESPACE_NOT_ALLOWED,
    Reason.MODEL_NAMESPACE_NOT_ALLOWED,
)


@workflow.defn(name=messages.RUN_WORKFLOW)
class RunWorkflow(RunControls):
    @workflow.init
    def __init__(self, given: RunInput) -> None:
        # How far a run has got comes from the workflow that continues as new, which is checked
        # before it is relied on.
        is_continued = workflow.info().continued_run_id is not None
        self._state = RunState(given if is_continued else given.at_start())
        self._signals = LaunchSignals()
        if given.ended is not None:
            self._signals.add_ended(given.ended)
        self._idle_checks = 0
        """How often in a row the run has checked without a signal and still waits."""
        self._unread_edits = 0

    @property
    def _controlled_run(self) -> RunRef:
        return self._state.run

    @workflow.signal(name=messages.LOOK_AGAIN_SIGNAL)
    def look_again(self, _argument: object = None) -> None:
        """Something that the run waits for may have changed. Other programs may send an
        argument."""
        self._state.look_again()

    @workflow.signal(
        name=messages.SPEC_CHANGED_SIGNAL,
        unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON,
    )
    async def spec_changed(self, _: SpecChanged) -> None:
        """A field that takes effect while the run is in progress was edited. Anybody can send
        signals: the spec is read."""
        self._unread_edits += 1
        if self._unread_edits > 1:
            return  # the handler of an earlier signal reads again
        while self._unread_edits:
            seen = self._unread_edits
            request = RunRequest(run=self._state.run)
            read = await execute_locally(
                activity_options.READ_SPEC, request, SpecResult, summary="the spec was edited"
            )
            self._unread_edits -= seen
            if read.spec is not None:
                self._state.edit_spec(read.spec)
                if self._state.job is not None:
                    # Without a limit, no start is signalled: the launch may be running already.
                    self._signals.of(self._state.job.job_uid).ended_pod = ""

    @workflow.signal(name=STARTED_SIGNAL)
    def started(self, signal: Started) -> None:
        """The container of a launch is running: the run's clock starts."""
        self._signals.of(signal.job_uid).started = signal
        self._state.signal_count += 1

    @workflow.signal(name=ENDED_SIGNAL)
    def ended(self, signal: Ended) -> None:
        """A launch should be inspected."""
        self._signals.add_ended(signal)
        self._state.signal_count += 1

    @workflow.run
    async def run(self, given: RunInput) -> RunResult:
        """Execute the run until its outcome is recorded; a failed run fails the workflow with its
        reason as the type."""
        cancellation: BaseException | None = None
        try:
            if workflow.info().continued_run_id is not None:
                is_own, is_cancelled = await uninterrupted(has_own_origin())
                # another program has passed on the state: the status knows what is needed
                if not is_own:
                    self._state = RunState(given.at_start())
                if is_cancelled:
                    raise asyncio.CancelledError
            outcome = await self._execute()
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            cancellation, outcome = error, await self._cancel()
        recorded = await self._record(outcome)
        self._result = result = RunResult(
            namespace=outcome.run.namespace,
            name=outcome.run.name,
            uid=outcome.run.uid,
            phase=recorded.phase,
            reason=recorded.reason,
            message=recorded.message,
            exit_code=outcome.exit_code,
            duration=recorded.duration,
            **Produced.fields_of(outcome),
        )
        await self._answer_updates()
        if cancellation is not None and recorded.phase is not Phase.SUCCEEDED:
            raise cancellation
        # It may have succeeded before the cancellation took effect.
        return close(result, has_failed=result.phase is Phase.FAILED and not recorded.gone)

    async def _execute(self) -> RecordInput:
        """Launch until the run succeeds or must not be retried; returns the outcome to record."""
        while True:
            if self._state.backfill is not None:
                return await BackfillFollowing(self._state).follow()
            launched = self._state.take_following() or await self._launch()
            if isinstance(launched, RecordInput):
                return launched
            verdict = await LaunchFollowing(self._state, launched, self._signals).supervise()
            verdict = self._state.finish_launch(verdict, now=self._now)
            verdict = await self._verify(
                verdict, is_final=self._step_after(verdict, launched).kind is StepKind.FAIL
            )
            step = self._step_after(verdict, launched)
            self._state.add_attempt(launched, verdict, step.reason)
            if step.kind is not StepKind.LAUNCH:
                phase = Phase.SUCCEEDED if step.kind is StepKind.SUCCEED else Phase.FAILED
                return self._state.outcome(
                    verdict.model_copy(update={"message": step.message}), phase, step.reason
                )
            await self._back_off(launched, verdict, step)
            self._limit_history()

    async def _launch(self) -> LaunchResult | RecordInput:
        """A launched Job, or the outcome of a run that cannot be launched; waits while the config
        is missing or invalid."""
        while True:
            seen = self._state.edit_count
            progress, asked = self._state.progress, workflow.now()
            is_first = progress.launch == 1
            summary = (
                "write the contract, create the Job"
                if is_first
                else f"create the Job of attempt {progress.attempt}"
            )
            request = self._state.begin_launch()
            launching = execute_locally(
                activity_options.LAUNCH, request, LaunchResult, summary=summary
            )
            launched, is_cancelled = await uninterrupted(launching)  # so that no Job is left behind
            self._state.set_clock(launched.cluster_time, asked=asked, now=workflow.now())
            self._state.accept_launch(launched)
            if is_cancelled:
                raise asyncio.CancelledError
            match launched.state:
                case LaunchState.LAUNCHED:
                    workflow.set_current_details(
                        f"**Pending**: Job {code_span(launched.job_name)} was created."
                    )
                    return launched
                case LaunchState.BACKFILL:
                    return await BackfillFollowing(self._state).follow()
                case LaunchState.CANCELLED:
                    return await self._cancel()
                case LaunchState.REFUSED:
                    return await self._fail(launched.reason, launched.message)
                case LaunchState.GONE | LaunchState.TERMINAL:
                    reason = (
                        Reason.RUN_DELETED
                        if launched.state is LaunchState.GONE
                        else launched.reason
                    )
                    failed = Verdict(
                        kind=VerdictKind.FAILED, reason=reason, message=launched.message
                    )
                    return self._state.outcome(failed, Phase.FAILED, reason)
                case LaunchState.SUSPENDED:
                    workflow.set_current_details(f"**Suspended**: {code_span(launched.message)}")
                    await self._wait_for_edit(seen, seconds=RECHECKS.longest, summary="suspended")
                    # meanwhile it was neither waiting nor running
                    self._state.waits_since = rfc3339(self._now)
                case LaunchState.WAITING:
                    workflow.set_current_details(
                        f"**Pending** ({launched.reason}): {code_span(launched.message)}"
                    )
                    if not await self._wait_for_change(launched, seen):
                        message = (
                            f"the run waited longer than pendingTimeoutSeconds: {launched.message}"
                        )
                        return await self._fail(Reason.PENDING_TIMEOUT, message)
            self._limit_history()

    async def _wait_for_change(self, launched: LaunchResult, seen: int) -> bool:
        """Wait for a signal after the first `seen` ones, or for the next check; False once
        pendingTimeoutSeconds expires."""
        left = self._state.expires_in(launched, now=self._now)
        if left is not None and left <= 0:
            return False
        is_unwatched = launched.is_unwatched or launched.reason in UNWATCHED_WAITS
        seconds = (RECHECKS.unwatched if is_unwatched else RECHECKS.watched).after(
            self._idle_checks + 1
        )
        seconds = seconds if left is None else min(seconds, left)
        if await self._wait_for_edit(seen, seconds=seconds, summary=f"waiting: {launched.reason}"):
            self._idle_checks = 0
            return True
        self._idle_checks += 1
        left = self._state.expires_in(launched, now=self._now)
        return left is None or left > 0

    async def _wait_for_edit(self, seen: int, *, seconds: float, summary: str) -> bool:
        return await wait_until(
            lambda: self._state.edit_count != seen, seconds=seconds, summary=summary
        )

    def _limit_history(self) -> None:
        if workflow.info().is_continue_as_new_suggested() and workflow.all_handlers_finished():
            workflow.continue_as_new(self._state.continued())

    def _step_after(self, verdict: Verdict, launched: LaunchResult) -> RunStep:
        return next_step(
            verdict,
            attempt=self._state.progress.counted_attempts,
            backoff_limit=launched.backoff_limit,
            seconds_left=self._state.running_seconds_left(now=self._now),
        )

    async def _back_off(self, launched: LaunchResult, verdict: Verdict, step: RunStep) -> None:
        """Publish why the run waits for its next launch, and wait. pendingTimeoutSeconds counts
        anew from then on, unless the launch never ran: then the run was waiting already.
        """
        has_waited = verdict.kind is VerdictKind.NEVER_RAN
        waits_from = rfc3339(self._now + timedelta(seconds=step.delay))
        self._state.waits_since = self._state.pending_since(launched) if has_waited else waits_from
        self._state.next_launch(is_counted=step.counted, has_waited=has_waited)
        if not step.delay:
            return  # it was suspended: the next launch says so
        progress, job = self._state.progress, self._state.job
        of = launched.backoff_limit + 1 + progress.uncounted
        message = step.pause_text(attempt=progress.attempt, of=of)
        request = PublishInput(
            run=self._state.run,
            phase=Phase.PENDING,
            reason=Reason.RETRY_BACKOFF,
            message=message,
            warning=not has_waited,
            ended_job=job.job_name if job else "",
            discarded_job_uid=job.job_uid if job and has_waited else "",
            **dict(progress),
        )
        summary = "publish the back-off"
        published = await execute_locally(
            activity_options.PUBLISH, request, StatusResult, summary=summary
        )
        if published.gone:
            return  # the next launch finds that the run was deleted
        workflow.set_current_details(f"**Pending**: {code_span(message)}")
        summary = f"back-off before attempt {progress.attempt}"
        await wait_until(lambda: self._state.is_suspended, seconds=step.delay, summary=summary)

    async def _cancel(self) -> RecordInput:
        """Stop the Job and wait until no Pod is left; returns the outcome, which is a success if
        the Job had succeeded."""
        if self._state.backfill is not None:
            return await BackfillFollowing(self._state).stop()
        verdict, job = None, self._state.job
        if job is not None:
            following = LaunchFollowing(self._state, job, self._signals)
            stopped = await following.stop(grace=STOP.grace, because=Reason.CANCELLED)
            self._state.list_cancelled(job, stopped.report, now=self._now)
            verdict = stopped.report.verdict
        if (success := success_of(verdict)) is not None:
            return self._state.outcome(success, Phase.SUCCEEDED, success.reason)
        is_unclear = verdict is not None and verdict.is_unclear
        return await self._fail(Reason.CANCELLED, "the run was cancelled", is_unclear=is_unclear)

    async def _fail(self, reason: Reason, message: str, *, is_unclear: bool = False) -> RecordInput:
        failed = Verdict(
            kind=VerdictKind.FAILED, reason=reason, message=message, is_unclear=is_unclear
        )
        verdict = await self._verify(failed, is_final=True)
        phase = Phase.SUCCEEDED if success_of(verdict) is not None else Phase.FAILED
        return self._state.outcome(verdict, phase, verdict.reason)

    async def _verify(self, verdict: Verdict, *, is_final: bool) -> Verdict:
        """The verdict, after the store was asked if the launches leave open whether the output is
        committed; unchanged if the run no longer exists. As with a launch, nothing is held in the
        meantime: the end of the verifying Job is signalled.
        """
        if success_of(verdict) is not None or not self._state.must_verify(
            verdict, is_final=is_final
        ):
            return verdict
        request = self._state.verify_input(because=verdict.message, is_final=is_final)
        until = workflow.now() + timedelta(seconds=VERIFICATION.whole)
        while True:
            summary = f"verify the output of launch {request.launch}"
            summary = "give up the verification" if request.must_conclude else summary
            result = await execute_locally(
                activity_options.VERIFY, request, VerifyResult, summary=summary
            )
            if result.finding is not None or result.gone or request.must_conclude:
                break
            workflow.set_current_details(
                f"**Pending** ({Reason.VERIFYING}): {code_span(verdict.message)}"
            )
            is_signalled = await wait_until(
                lambda: self._signals.take_ended(result.job_uid) is not None,  # noqa: B023 -- awaited in this turn
                seconds=(until - workflow.now()).total_seconds(),
                summary="verification of the output",
            )
            request = request.model_copy(
                update={"job_uid": result.job_uid, "must_conclude": not is_signalled}
            )
        return concluded(verdict, result.finding) if result.finding is not None else verdict

    async def _record(self, outcome: RecordInput) -> StatusResult:
        """The status with which the run ended. A cancellation that arrives meanwhile has no
        effect."""
        summary = f"record {outcome.phase} ({outcome.reason})"
        recording = execute_locally(activity_options.RECORD, outcome, StatusResult, summary=summary)
        recorded, _ = await uninterrupted(recording)
        # it was deleted after it had succeeded
        if recorded.gone and outcome.phase is Phase.SUCCEEDED:
            ended = {"phase": outcome.phase, "reason": outcome.reason, "message": outcome.message}
            return recorded.model_copy(update=ended)
        return recorded

    @property
    def _now(self) -> datetime:
        """The time by the clock of the API server, as are the times that it is compared with."""
        return self._state.cluster_time(workflow.now())

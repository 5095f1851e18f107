"""The front door: one workflow from asking for a run to its end, for a program, another workflow or a schedule.

It creates the InferenceRun, waits until that has ended and returns its result; a run that failed fails it, with the
run's reason as the failure's type. It learns the end by a signal from the run's workflow and looks by itself now and
then, so it holds no activity while it waits. Cancelled, it cancels the run and ends when the run has ended.
"""

import asyncio
from typing import NoReturn

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from inferrun import names
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.submission import Following, InvalidSubmission, Submission, parse_submission
from workflows import activity_options, messages
from workflows.invoke import invoke
from workflows.messages import (
    CancelRunInput,
    DeleteScheduleInput,
    ReadRunInput,
    RecordResult,
    RunResult,
    Standing,
    SubmitInput,
    Submitted,
)

RECHECK_SECONDS = 600
"""How often it looks by itself; the signal is what it goes by."""

CANCELLED_RECHECK_SECONDS = 10
"""The same, once it has asked the run to end."""

SCHEDULED_START_TIME = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
"""Set by the server on what a schedule starts: when it was due, whenever it was started."""


NOTHING = RawValue(Payload())
"""What stands for an argument that was not given."""


# Two arguments are a TypeError before any of this code runs; unless it counts as a failure of the workflow, the task
# would be tried again for ever.
@workflow.defn(name=messages.SUBMIT_WORKFLOW, failure_exception_types=[TypeError])
class SubmitInferenceRun:
    """Makes one run and waits for its end."""

    def __init__(self) -> None:
        self._ended: dict[str, RunResult] = {}
        self._is_cancelled = False

    @workflow.signal(name=messages.RUN_ENDED_SIGNAL)
    def run_ended(self, result: RunResult) -> None:
        """The run's workflow has recorded its end."""
        self._ended[result.uid] = result

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> RunResult | None:
        """The run's result; None for a schedule whose InferenceRun is gone. Fails with the run's reason as its type."""
        submission = _parse(request)
        submitted = await self._submit(submission)
        if submitted.standing is Standing.NO_PARENT:
            await self._end_schedule(submission)
            return None
        if submitted.run is None:
            raise ApplicationError(submitted.message, type=str(submitted.reason), non_retryable=True)
        end = await self._wait_or_cancel(submission, submitted)
        if self._is_cancelled and (end.result is None or end.result.phase is not Phase.SUCCEEDED):
            raise asyncio.CancelledError("the run was cancelled")
        return _close(end)

    async def _submit(self, submission: Submission) -> Submitted:
        """The run, made or found. Cancellation waits for that: a run that may exist is never left alone."""
        if submission.following is not None:
            run = RunRef(namespace=submission.namespace, name=submission.following.name, uid=submission.following.uid)
            return Submitted(standing=Standing.UNDER_WAY, run=run)
        info = workflow.info()
        due = info.typed_search_attributes.get(SCHEDULED_START_TIME)
        asked = SubmitInput(
            submission=submission,
            workflow_id=info.workflow_id,
            execution_run_id=info.run_id,
            nominal_time=due.isoformat() if due else None,
        )
        making = asyncio.create_task(
            invoke(activity_options.SUBMIT, asked, Submitted, summary="create the InferenceRun")
        )
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._is_cancelled = True
            return await making

    async def _wait_or_cancel(self, submission: Submission, submitted: Submitted) -> Submitted:
        """The run's end, by itself or because the submission was cancelled."""
        try:
            if not self._is_cancelled:
                return await self._wait(submission, submitted)
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            self._is_cancelled = True
        return await self._cancel(_run_of(submitted))

    async def _wait(self, submission: Submission, submitted: Submitted) -> Submitted:
        """The run's end; looks again every `RECHECK_SECONDS`."""
        run = _run_of(submitted)
        while submitted.standing is Standing.UNDER_WAY:
            _tell(submitted)
            if workflow.info().is_continue_as_new_suggested():
                following = Following(name=run.name, uid=run.uid)
                workflow.continue_as_new(submission.model_copy(update={"following": following}))
            submitted = await self._look(run, after=RECHECK_SECONDS)
        return submitted

    async def _cancel(self, run: RunRef) -> Submitted:
        """Ask the run to end and wait until it has."""
        workflow.set_current_details(f"Cancelled: ends InferenceRun `{run.namespace}/{run.name}`.")
        submitted = await invoke(
            activity_options.CANCEL_RUN, CancelRunInput(run=run), Submitted, summary="cancel the InferenceRun"
        )
        while submitted.standing is Standing.UNDER_WAY:
            submitted = await self._look(run, after=CANCELLED_RECHECK_SECONDS)
        return submitted

    async def _look(self, run: RunRef, *, after: int) -> Submitted:
        """How the run stands once it has ended, or after so many seconds."""
        try:
            await workflow.wait_condition(
                lambda: run.uid in self._ended, timeout=after, timeout_summary=f"look at {run.name} by itself"
            )
        except TimeoutError:
            return await invoke(
                activity_options.READ_RUN, ReadRunInput(run=run), Submitted, summary=f"look at {run.name}"
            )
        return Submitted(standing=Standing.ENDED, run=run, result=self._ended[run.uid])

    async def _end_schedule(self, submission: Submission) -> None:
        """Delete the schedule that fired for an InferenceRun that is gone."""
        if submission.parent is None:
            return
        parent = RunRef(namespace=submission.namespace, name=submission.parent.name, uid=submission.parent.uid)
        text = f"The schedule's InferenceRun `{parent.namespace}/{parent.name}` is gone: its schedule is deleted."
        workflow.set_current_details(text)
        request = DeleteScheduleInput(parent=parent)
        await invoke(activity_options.DELETE_SCHEDULE, request, RecordResult, summary="delete the schedule")


def _parse(request: RawValue) -> Submission:
    """The submission, or a failure that names the field: what a converter refuses would be tried again for ever."""
    try:
        is_given = request is not NOTHING
        argument = workflow.payload_converter().from_payload(request.payload, object) if is_given else None
    except Exception as error:  # noqa: BLE001 -- converters raise what they like; the argument is the caller's
        _refuse(f"the argument is not JSON: {type(error).__name__}: {error}", error)
    try:
        return parse_submission(argument)
    except InvalidSubmission as error:
        _refuse(str(error), error)


def _refuse(text: str, cause: Exception) -> NoReturn:
    raise ApplicationError(text[:1024], type=str(Reason.REQUEST_REFUSED), non_retryable=True) from cause


def _run_of(submitted: Submitted) -> RunRef:
    if submitted.run is None:
        raise ApplicationError("a submission without a run", type=str(submitted.reason), non_retryable=True)
    return submitted.run


def _tell(submitted: Submitted) -> None:
    run = _run_of(submitted)
    lines = (
        f"Waits for InferenceRun `{run.namespace}/{run.name}`.",
        f"Its workflow: `{names.run_workflow_id(run)}`.",
        f"`kubectl get inferencerun -n {run.namespace} {run.name}`",
    )
    workflow.set_current_details("\n\n".join(lines))


def _close(end: Submitted) -> RunResult:
    """The result, or the failure that stands for it."""
    result = end.result or _deleted(_run_of(end))
    workflow.set_current_details(f"**{result.phase}** ({result.reason}): {result.message}")
    if result.phase is not Phase.SUCCEEDED:
        text = f"{result.reason}: {result.message}"
        raise ApplicationError(text, result, type=str(result.reason), non_retryable=True)
    return result


def _deleted(run: RunRef) -> RunResult:
    return RunResult(
        namespace=run.namespace,
        name=run.name,
        uid=run.uid,
        phase=Phase.FAILED,
        reason=Reason.RUN_DELETED,
        message=f"InferenceRun {run.namespace}/{run.name} was deleted before its end was known",
    )

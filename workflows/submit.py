"""The front door: one workflow that requests a run and waits for its end, for a program, a workflow
or a schedule.

It creates the InferenceRun, waits until the run has ended and returns its result; if the run
failed, the workflow fails with the run's reason as the failure's type. A signal from the run's
workflow reports the end, and an infrequent check finds it if the signal was lost, so a waiting
submission holds no activity. If it is cancelled, it cancels the run and closes when the run has
ended.
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
from inferrun.run_result import RunResult, deleted_result
from inferrun.submission import (
    MAX_PAYLOAD_BYTES,
    WORKFLOW_TYPE,
    InvalidSubmission,
    KnownRun,
    Submission,
    parse_submission,
)
from inferrun.text import code_span, one_line, shell_command
from workflows import activity_options, messages
from workflows.activity_execution import (
    execute,
    execute_locally,
    has_own_origin,
    uninterrupted,
    wait_until,
)
from workflows.messages import (
    DeleteScheduleInput,
    DeletionResult,
    EditInput,
    RunEdit,
    RunRequest,
    SubmissionState,
    SubmissionStatus,
    SubmitInput,
)
from workflows.run_controls import RunControls, close
from workflows.timing import RECHECKS

ROOM = 512
"""Bytes of a message besides those of a request: the run that a submission which continues as new
follows."""

SCHEDULED_START_TIME = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
"""Set by the server on workflows that a schedule starts: the nominal time, however late the start
is."""

CRON = "refusedCronSchedule"
"""The memo that passes on the cron schedule with which the workflow was started."""

NO_ARGUMENT = RawValue(Payload())
"""Stands for an argument that was not given."""


@workflow.defn(name=WORKFLOW_TYPE)
class SubmitInferenceRun(RunControls):
    def __init__(self) -> None:
        self._has_news = False
        self._is_cancelled = False
        self._run: RunRef | None = None

    @property
    def _controlled_run(self) -> RunRef | None:
        return self._run

    @workflow.signal(name=messages.LOOK_AGAIN_SIGNAL)
    def look_again(self) -> None:
        """There is news about the run, such as its end."""
        self._has_news = True

    @workflow.run
    async def run(self, request: RawValue = NO_ARGUMENT) -> RunResult | None:
        """The run's result; None if the schedule's InferenceRun no longer exists. Fails with the
        run's reason as type."""
        _refuse_cron(request)
        submission = _parse(request)
        status = await self._submit(submission)
        if status.standing is SubmissionState.NO_PARENT:
            if submission.parent is not None:
                parent = RunRef(
                    namespace=submission.namespace,
                    name=submission.parent.name,
                    uid=submission.parent.uid,
                )
                gone = f"The schedule's InferenceRun {code_span(str(parent))} no longer exists: deleting the schedule."
                workflow.set_current_details(gone)
                request_to_delete = DeleteScheduleInput(parent=parent)
                summary = "delete the schedule"
                await execute(
                    activity_options.DELETE_SCHEDULE,
                    request_to_delete,
                    DeletionResult,
                    summary=summary,
                )
            return None
        self._run = run = status.run
        if run is None:
            raise ApplicationError(status.message, type=str(status.reason), non_retryable=True)
        try:
            if not self._is_cancelled:
                status = await self._wait(run, status, submission=submission)
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            self._is_cancelled = True
        if self._is_cancelled:
            workflow.set_current_details(f"Cancelled: stopping InferenceRun {code_span(str(run))}.")
            to_cancel, summary = EditInput(run=run, edit=RunEdit.CANCEL), "cancel the InferenceRun"
            status = await execute(
                activity_options.EDIT_RUN, to_cancel, SubmissionStatus, summary=summary
            )
            status = await self._wait(run, status, submission=None)
        self._result = status.result or deleted_result(run)
        await self._answer_updates()
        if self._is_cancelled and (
            status.result is None or status.result.phase is not Phase.SUCCEEDED
        ):
            raise asyncio.CancelledError("the run was cancelled")
        return close(self._result, has_failed=self._result.phase is not Phase.SUCCEEDED)

    async def _submit(self, submission: Submission) -> SubmissionStatus:
        """The run, created or found. Cancellation waits for it, so that no run is left behind."""
        if submission.following is not None:
            if workflow.info().continued_run_id is None:
                text = "following: unknown field; it is set when the workflow continues as new"
                return SubmissionStatus(
                    standing=SubmissionState.REFUSED, reason=Reason.REQUEST_REFUSED, message=text
                )
            is_own, self._is_cancelled = await uninterrupted(has_own_origin())
            if is_own:
                following = submission.following
                run = RunRef(namespace=submission.namespace, name=following.name, uid=following.uid)
                return SubmissionStatus(standing=SubmissionState.UNDER_WAY, run=run)
            # what the id refers to is found by its name
            submission = submission.model_copy(update={"following": None})
        info = workflow.info()
        due = info.typed_search_attributes.get(SCHEDULED_START_TIME)
        nominal_time = due.isoformat() if due else None
        request = SubmitInput(
            submission=submission, workflow_id=info.workflow_id, nominal_time=nominal_time
        )
        excess = len(request.model_dump_json().encode()) + ROOM - MAX_PAYLOAD_BYTES
        # with its default values and the workflow's id it is longer, and would be truncated on the
        # way
        if excess > 0:
            text = f"the argument has {excess} bytes too many for the workflow's id; pass large parameters by reference"
            _reject(text)
        creating = execute(
            activity_options.SUBMIT, request, SubmissionStatus, summary="create the InferenceRun"
        )
        status, is_cancelled = await uninterrupted(creating)
        self._is_cancelled |= is_cancelled
        return status

    async def _wait(
        self, run: RunRef, status: SubmissionStatus, *, submission: Submission | None
    ) -> SubmissionStatus:
        """The end of the run; `submission` is None if it was cancelled. The end is read once there
        is news, and now and then: anybody can send signals, so they decide nothing.
        """
        request, summary = RunRequest(run=run), f"read {run.name}"
        seconds: float = RECHECKS.cancelled if submission is None else RECHECKS.usual
        while status.standing is SubmissionState.UNDER_WAY:
            if submission is not None:
                lines = (
                    f"Waiting for InferenceRun {code_span(str(run))}.",
                    f"Its workflow: {code_span(names.run_workflow_id(run))}.",
                    code_span(
                        shell_command(
                            "kubectl", "get", "inferencerun", "-n", run.namespace, run.name
                        )
                    ),
                )
                workflow.set_current_details("\n\n".join(lines))
            is_long = (
                workflow.info().is_continue_as_new_suggested() and workflow.all_handlers_finished()
            )
            if submission is not None and is_long and not self._has_news:
                following = KnownRun(name=run.name, uid=run.uid)
                workflow.continue_as_new(submission.model_copy(update={"following": following}))
            if await wait_until(
                lambda: self._has_news, seconds=seconds, summary=f"check {run.name}"
            ):
                self._has_news = False
                status = await execute_locally(
                    activity_options.READ_RUN, request, SubmissionStatus, summary=summary
                )
            else:
                status = await execute(
                    activity_options.READ_RUN, request, SubmissionStatus, summary=summary
                )
            seconds = RECHECKS.watched.longer(seconds)
        return status


def _refuse_cron(request: RawValue) -> None:
    """All executions of a cron schedule have one id, and would be one run: all but the first would
    succeed without executing anything.

    A failure would not show: Temporal continues such a workflow as new, each time, and says why
    only where the next one starts. What continues itself as new has no cron schedule any more, and
    can fail.
    """
    if cron := workflow.info().cron_schedule:
        workflow.continue_as_new(request, memo={CRON: cron})
    if cron := workflow.memo_value(CRON, ""):
        schedules = "a Temporal schedule, which gives each execution its own, or spec.schedule of an InferenceRun"
        text = f"cronSchedule {cron!r}: all executions would have this id, and an id always refers to one run; use {schedules}"
        _reject(text)


def _parse(request: RawValue) -> Submission:
    """The submission. An invalid argument fails the workflow here, with a message that names the
    field; an argument rejected by the data converter would make the server retry the workflow task
    forever.
    """
    size = len(request.payload.data)
    if size > MAX_PAYLOAD_BYTES:
        text = f"the argument has {size} bytes, at most {MAX_PAYLOAD_BYTES} are allowed; pass large parameters by reference"
        _reject(text)
    try:
        is_given = request is not NO_ARGUMENT
        argument = (
            workflow.payload_converter().from_payload(request.payload, object) if is_given else None
        )
    except Exception as error:  # noqa: BLE001 -- converters may raise anything; the argument comes from the caller
        _reject(f"the argument is not JSON: {type(error).__name__}: {error}")
    try:
        return parse_submission(argument)
    except InvalidSubmission as error:
        _reject(str(error))


def _reject(text: str) -> NoReturn:
    """Without a cause: programs in other languages show the innermost one, which would be an
    exception of ours or of pydantic's."""
    raise ApplicationError(
        one_line(text, limit=1024), type=str(Reason.REQUEST_REFUSED), non_retryable=True
    ) from None

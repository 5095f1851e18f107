"""What any Temporal client may ask of the workflow of a run or of a submission: the run's progress,
and to suspend, resume or cancel it.

The InferenceRun remains the truth. A query and the validator of an update may not execute
activities, and nothing that they do is recorded in the history: they read the InferenceRun through
the worker. An update edits it in an activity, and the run acts on that as on an edit with kubectl.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, cast

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import Progress, RunResult
from inferrun.text import code_span, one_line
from workflows import activity_options
from workflows.activity_execution import execute, uninterrupted
from workflows.messages import (
    PROGRESS_QUERY,
    EditInput,
    RunEdit,
    SubmissionState,
    SubmissionStatus,
    refused,
)

READ_PROGRESS: Final = "inferrun.read_progress"
"""The function with which a worker reads a run at once, outside of the workflow's history: None if
the run does not exist. Raises ApplicationError if it cannot be read now.
"""

_ABANDON: Final = workflow.HandlerUnfinishedPolicy.ABANDON
"""The policy of a workflow that fails, because no run is created for example. Before any other end,
the answers are waited for."""

ReadProgress = Callable[[RunRef], Progress | None]


class RunControls:
    """The query and the updates; a workflow class inherits them."""

    @property
    @abstractmethod
    def _controlled_run(self) -> RunRef | None:
        """The run; None until it is known."""

    _result: RunResult | None = None
    """How the run ended, for the time after its InferenceRun was deleted."""

    @workflow.query(name=PROGRESS_QUERY, description="How far the run has got")
    def progress(self) -> Progress:
        """The progress as the run's status says it now."""
        run = self._controlled_run
        if run is None:
            return Progress(message="the InferenceRun is being created")
        found = _read_progress(run)
        if found is not None:
            return found
        if self._result is not None:
            return Progress.model_validate(self._result.model_dump(exclude_none=True))
        raise refused(f"InferenceRun {run} does not exist any more", reason=Reason.RUN_DELETED)

    @workflow.update(
        name=RunEdit.SUSPEND,
        description="Stop the run's Job; what is committed is kept",
        unfinished_policy=_ABANDON,
    )
    async def suspend(self) -> RunRef:
        return await self._edit(RunEdit.SUSPEND)

    @suspend.validator
    def _may_suspend(self) -> None:
        self._validate(RunEdit.SUSPEND)

    @workflow.update(
        name=RunEdit.RESUME, description="Continue a suspended run", unfinished_policy=_ABANDON
    )
    async def resume(self) -> RunRef:
        return await self._edit(RunEdit.RESUME)

    @resume.validator
    def _may_resume(self) -> None:
        self._validate(RunEdit.RESUME)

    @workflow.update(
        name=RunEdit.CANCEL,
        description="End the run as Failed with the reason Cancelled",
        unfinished_policy=_ABANDON,
    )
    async def cancel(self) -> RunRef:
        return await self._edit(RunEdit.CANCEL)

    @cancel.validator
    def _may_cancel(self) -> None:
        self._validate(RunEdit.CANCEL)

    def _validate(self, edit: RunEdit) -> None:
        """Raises ApplicationError if the edit makes no sense: nothing is recorded then. While the
        run is being created, or the API server does not answer, an update is accepted, and is
        written as soon as possible.
        """
        run = self._controlled_run
        if run is None:
            return
        try:
            found = _read_progress(run)
        except ApplicationError:
            return
        if refusal := refusal_of(edit, found):
            raise refused(f"InferenceRun {run}: {refusal}")

    async def _edit(self, edit: RunEdit) -> RunRef:
        await workflow.wait_condition(lambda: self._controlled_run is not None)
        run = cast("RunRef", self._controlled_run)
        request, summary = EditInput(run=run, edit=edit), f"{edit} the InferenceRun"
        status = await execute(
            activity_options.EDIT_RUN, request, SubmissionStatus, summary=summary
        )
        if status.standing is SubmissionState.UNDER_WAY:
            return run
        ended = status.result
        if edit is RunEdit.CANCEL and ended is not None and ended.reason is Reason.CANCELLED:
            return run  # an earlier try of the activity has cancelled it
        if ended is not None:
            raise refused(f"InferenceRun {run}: it has ended: {ended.phase} ({ended.reason})")
        raise refused(
            status.message or f"InferenceRun {run} does not exist any more", reason=status.reason
        )

    async def _answer_updates(self) -> None:
        """Wait for the updates under way before the workflow closes; otherwise their callers would
        get an error."""
        await uninterrupted(workflow.wait_condition(workflow.all_handlers_finished))


def close(result: RunResult, *, has_failed: bool) -> RunResult:
    """The result; if the run has failed, the workflow fails with the run's reason as the type."""
    workflow.set_current_details(
        f"**{result.phase}** ({result.reason}): {code_span(result.message)}"
    )
    if has_failed:
        text = one_line(f"{result.reason}: {result.message}", limit=2048)
        raise ApplicationError(text, result, type=str(result.reason), non_retryable=True)
    return result


def refusal_of(edit: RunEdit, progress: Progress | None) -> str:
    """Why the edit is refused for a run in this state (None: it does not exist); empty if it is
    not."""
    if progress is None:
        return "it does not exist any more"
    if progress.phase.is_terminal:
        return f"it has ended: {progress.phase} ({progress.reason})"
    if progress.cancel_requested:
        return "it is being cancelled"
    if edit is RunEdit.SUSPEND and progress.suspend:
        return "it is suspended already"
    if edit is RunEdit.RESUME and not progress.suspend:
        return "it is not suspended"
    return ""


def _read_progress(run: RunRef) -> Progress | None:
    read: ReadProgress = workflow.extern_functions()[READ_PROGRESS]
    return read(run)

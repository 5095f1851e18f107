"""`ReadRun`, `ReadSpec` and `EditRun`: what a submission or a run's workflow asks about a run, and
what programs ask of it.

The request to cancel is stored on the run, where it survives every process, and sent to the run's
workflow, which acts at once.
"""

from contextlib import suppress

from temporalio import activity
from temporalio.client import Client

from control.runs.submissions import rejected, submission_status
from control.temporal_calls import cancel_run
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NOT_ADMITTED, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.launches.run_clock import timeout_of
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import Progress, progress_of
from workflows import activity_options
from workflows.messages import (
    EditInput,
    RunEdit,
    RunRequest,
    SpecChanged,
    SpecResult,
    SubmissionStatus,
)


class SubmittedRuns:
    def __init__(self, api: KubeClient, runs: RunStore, *, temporal: Client) -> None:
        self._api = api
        self._runs = runs
        self._temporal = temporal

    @activity.defn(name=activity_options.READ_RUN.name)
    async def read_run(self, request: RunRequest) -> SubmissionStatus:
        return submission_status(request.run, await self._runs.read(request.run))

    @activity.defn(name=activity_options.READ_SPEC.name)
    async def read_spec(self, request: RunRequest) -> SpecResult:
        """The fields of the spec that take effect while the run is in progress."""
        run = await self._runs.read(request.run)
        if run is None:
            return SpecResult()
        return SpecResult(
            spec=SpecChanged(timeout_seconds=timeout_of(run.spec), suspend=bool(run.spec.suspend))
        )

    async def read_progress(self, run: RunRef) -> Progress | None:
        """How far the run has got; None if it does not exist."""
        found = await self._runs.read(run)
        return progress_of(found) if found is not None else None

    @activity.defn(name=activity_options.EDIT_RUN.name)
    async def edit_run(self, request: EditInput) -> SubmissionStatus:
        """Suspend, resume or cancel a run that has not ended; returns the state of the run, or why
        the edit was rejected."""
        run = await self._runs.read(request.run)
        if run is not None and run.spec.is_schedule:
            return rejected(Reason.REQUEST_REFUSED, f"InferenceRun {request.run} is a schedule")
        if run is not None and not run.status.is_terminal:
            if request.edit is RunEdit.CANCEL:
                await self.cancel(request.run)
            elif bool(run.spec.suspend) != (request.edit is RunEdit.SUSPEND):
                try:
                    await self._patch(
                        request.run, {"spec": {"suspend": request.edit is RunEdit.SUSPEND}}
                    )
                except NOT_ADMITTED as error:
                    return rejected(Reason.REQUEST_REFUSED, str(error))
            run = await self._runs.read(request.run)
        return submission_status(request.run, run)

    async def cancel(self, run: RunRef) -> None:
        """Request the cancellation of a run; one that is gone is success."""
        await self._patch(
            run, {"metadata": {"annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}}
        )
        await cancel_run(self._temporal, run)

    async def _patch(self, run: RunRef, fields: Object) -> None:
        """One that is gone is success."""
        patch = {**fields, "metadata": {**fields.get("metadata", {}), "uid": run.uid}}
        with suppress(NotFound):
            await self._api.patch(RUNS, run.namespace, run.name, patch)

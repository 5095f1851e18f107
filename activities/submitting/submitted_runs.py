"""`ReadRun`, `CancelRun` and `ReadSpec`: what a submission or a run's workflow asks about a run, and its cancellation.

The request to cancel is stored on the run, where it survives every process, and sent to the run's workflow, which acts at once.
"""

from contextlib import suppress

from temporalio import activity
from temporalio.client import Client

from activities.submitting.child_runs import status_of
from control import run_workflows
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from inferrun.run_ref import RunRef
from workflows import activity_options
from workflows.messages import RunRequest, SpecChanged, SpecResult, SubmissionStatus
from workflows.run_clock import timeout_of


class SubmittedRuns:
    """One instance serves all workflows of a worker."""

    def __init__(self, api: KubeClient, runs: RunStore, *, temporal: Client) -> None:
        self._api = api
        self._runs = runs
        self._temporal = temporal

    @activity.defn(name=activity_options.READ_RUN.name)
    async def read_run(self, request: RunRequest) -> SubmissionStatus:
        """The state of the run."""
        return status_of(request.run, await self._runs.read(request.run))

    @activity.defn(name=activity_options.READ_SPEC.name)
    async def read_spec(self, request: RunRequest) -> SpecResult:
        """The fields of the spec that take effect while the run is in progress."""
        run = await self._runs.read(request.run)
        if run is None:
            return SpecResult()
        return SpecResult(spec=SpecChanged(timeout_seconds=timeout_of(run.spec), suspend=bool(run.spec.suspend)))

    @activity.defn(name=activity_options.CANCEL_RUN.name)
    async def cancel_run(self, request: RunRequest) -> SubmissionStatus:
        """Request the cancellation of a run that has not ended; returns the state of the run."""
        run = await self._runs.read(request.run)
        if run is not None and not run.status.is_terminal:
            await self.cancel(request.run)
            run = await self._runs.read(request.run)
        return status_of(request.run, run)

    async def cancel(self, run: RunRef) -> None:
        """Request the cancellation of a run; one that is gone is success."""
        metadata = {"uid": run.uid, "annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}
        with suppress(NotFound):
            await self._api.patch(RUNS, run.namespace, run.name, {"metadata": metadata})
        await run_workflows.cancel_run(self._temporal, run)

"""`CancelRun`: cancels a submission's run.

The request is stored on the run, where it survives every process, and sent to the run's workflow, which acts at once.
"""

from contextlib import suppress

from temporalio import activity
from temporalio.client import Client

from activities.rules.submission_status import status_of
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from inferrun.run_ref import RunRef
from inferrun.temporal import run_workflows
from workflows import activity_options
from workflows.messages import CancelRunInput, SubmissionStatus


class RunCanceller:
    """One instance serves all submissions of a worker."""

    def __init__(self, api: KubeClient, runs: RunStore, *, temporal: Client) -> None:
        self._api = api
        self._runs = runs
        self._temporal = temporal

    @activity.defn(name=activity_options.CANCEL_RUN.name)
    async def cancel_run(self, request: CancelRunInput) -> SubmissionStatus:
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

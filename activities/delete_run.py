"""`DeleteRun`: deletes a finished run."""

from temporalio import activity

from activities.cluster.deletion import delete_if_present
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from workflows import activity_options
from workflows.messages import DeleteRunInput, DeletionResult


class RunDeleter:
    """One instance serves all runs of a worker."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api

    @activity.defn(name=activity_options.DELETE_RUN.name)
    async def delete_run(self, request: DeleteRunInput) -> DeletionResult:
        """Delete the run with that UID; a run that is already gone is success."""
        run = request.run
        await delete_if_present(self._api, RUNS, run.namespace, run.name, uid=run.uid)
        return DeletionResult()

"""`DeleteRun`: deletes a finished run, and says so where users look for it."""

from temporalio import activity

from activities.cluster.deletion import delete_if_present
from activities.cluster.events import EventRecorder, Subject
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import CONFIGS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from workflows import activity_options
from workflows.messages import DeleteRunInput, DeletionResult


class RunDeleter:
    """One instance serves all runs of a worker."""

    def __init__(self, api: KubeClient, runs: RunStore, *, events: EventRecorder) -> None:
        self._api = api
        self._runs = runs
        self._events = events

    @activity.defn(name=activity_options.DELETE_RUN.name)
    async def delete_run(self, request: DeleteRunInput) -> DeletionResult:
        """Delete the run with that UID; a run that is already gone is success.

        The Events come first: after the deletion, a retry would not know what to say.
        """
        ref = request.run
        run = await self._runs.read(ref)
        if run is None:
            return DeletionResult(message=f"InferenceRun {ref} had been deleted before")
        message = _message(run, request.because)
        await self._report(run, message)
        if not await delete_if_present(self._api, RUNS, ref.namespace, ref.name, uid=ref.uid):
            return DeletionResult(message=f"InferenceRun {ref} had been deleted before")
        return DeletionResult(deleted=True, message=message)

    async def _report(self, run: InferenceRun, message: str) -> None:
        """On the run, whose Events outlast it, and on its config, which still exists when somebody looks for the run."""
        await self._events.record(run.ref, reason=Reason.AUTO_DELETED, message=message, is_warning=False)
        namespace, name = run.config_namespace, run.spec.config_ref.name
        try:
            config = await self._api.get(CONFIGS, namespace, name)
        except KubeError:
            return  # an Event is a courtesy
        subject = Subject(wellknown.CONFIG_KIND, namespace, name, config["metadata"]["uid"])
        await self._events.record_on(subject, reason=Reason.AUTO_DELETED, message=message, is_warning=False)


def _message(run: InferenceRun, because: str) -> str:
    """What is deleted and why; `because` is empty if an earlier version started the clean-up."""
    policy = because or "autoDeletePolicy says so"
    name = run.spec.config_ref.name
    return f"InferenceRun {run.metadata.name} ({run.status.phase}) is deleted: {policy} in InferenceConfig {name}"

"""`DeleteRun`: deletes a finished run whose config says so, and says so where users look for it.

Whoever may start workflows can start the one that calls this. What it does is therefore decided here, from the run's
status, and not by the caller.
"""

from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.cluster.deletion import delete_if_present
from activities.cluster.events import EventRecorder, Subject
from activities.rules.child_runs import schedule_of
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import CONFIGS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.text import one_line
from inferrun.timestamps import utc_now
from workflows import activity_options
from workflows.messages import DeleteRunInput, DeletionResult

BECAUSE_LIMIT = 200
"""Characters of the reason that the clean-up was started with."""

TOLERANCE = timedelta(seconds=5)
"""The clocks of the processes may differ."""


class RunDeleter:
    """One instance serves all runs of a worker."""

    def __init__(self, api: KubeClient, runs: RunStore, *, events: EventRecorder) -> None:
        self._api = api
        self._runs = runs
        self._events = events

    @activity.defn(name=activity_options.DELETE_RUN.name)
    async def delete_run(self, request: DeleteRunInput) -> DeletionResult:
        """Delete the run with that UID; a run that is already gone is success.

        The Events come first: after the deletion, a retry would not know what to say. Raises ApplicationError if the run
        has not ended, or must be kept; if it is merely too early, it can be retried.
        """
        ref = request.run
        run = await self._runs.read(ref)
        if run is None:
            return DeletionResult(message=f"InferenceRun {ref} had been deleted before")
        _check(run)
        message = _message(run, because=request.because)
        await self._report(run, message)
        if not await delete_if_present(self._api, RUNS, ref.namespace, ref.name, uid=ref.uid):
            return DeletionResult(message=f"InferenceRun {ref} had been deleted before")
        return DeletionResult(deleted=True, message=message)

    async def _report(self, run: InferenceRun, message: str) -> None:
        """On the run, whose Events outlast it, and on its config, which still exists when users look for the run."""
        await self._events.record(run.ref, reason=Reason.AUTO_DELETED, message=message, is_warning=False)
        namespace, name = run.config_namespace, run.spec.config_ref.name
        try:
            config = await self._api.get(CONFIGS, namespace, name)
        except KubeError:
            return  # an Event is a courtesy
        subject = Subject(wellknown.CONFIG_KIND, namespace, name, config["metadata"]["uid"])
        await self._events.record_on(subject, reason=Reason.AUTO_DELETED, message=message, is_warning=False)


def _check(run: InferenceRun) -> None:
    """The time of the deletion is in the status since the outcome was recorded, and users cannot write it there."""
    if not run.status.is_terminal:
        raise _refused(f"run {run.ref} has not ended")
    due = run.status.delete_after
    if due is None or schedule_of(run) is not None:
        raise _refused(f"the autoDeletePolicy of run {run.ref} keeps it")
    if due - TOLERANCE > utc_now():
        raise ApplicationError(f"run {run.ref} is kept until {due:%H:%M:%S}", next_retry_delay=due - utc_now())


def _refused(text: str) -> ApplicationError:
    return ApplicationError(text, type=str(Reason.REQUEST_REFUSED), non_retryable=True)


def _message(run: InferenceRun, *, because: str) -> str:
    """What is deleted and why. `because` comes from whoever started the clean-up, and is only shown."""
    name, why = run.spec.config_ref.name, one_line(because, limit=BECAUSE_LIMIT)
    policy = f"autoDeletePolicy in InferenceConfig {name}"
    return f"InferenceRun {run.metadata.name} ({run.status.phase}) is deleted: {policy}{f'; {why}' if why else ''}"

"""`PublishStatus`: writes the status of a run that has not ended."""

from temporalio import activity

from control.cluster.events import EventRecorder
from control.cluster.job_marks import mark_ended
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_status import status_after
from workflows import activity_options
from workflows.messages import PublishInput, StatusResult


class StatusPublisher:
    def __init__(self, api: KubeClient, runs: RunStore, *, events: EventRecorder) -> None:
        self._api = api
        self._runs = runs
        self._events = events

    @activity.defn(name=activity_options.PUBLISH.name)
    async def publish_status(self, request: PublishInput) -> StatusResult:
        """Write the status and an Event; a run that has ended keeps its status."""
        starts = (item.start_time for item in request.attempts if item.start_time is not None)
        first_start = next(starts, None)  # a container that ended at once was not seen to run

        def decide(run: InferenceRun) -> InferenceRunStatus:
            return status_after(
                run,
                phase=request.phase,
                reason=request.reason,
                message=request.message,
                now=self._api.now(),
                cleared=("running_since", "pace"),
                start_time=run.status.start_time or first_start,
                **request.shown,
            )

        written = await self._runs.update_status(request.run, decide)
        if written.changed:
            await self._events.record(
                request.run,
                reason=request.reason,
                message=request.message,
                is_warning=request.warning,
            )
        if request.ended_job and written.run is not None:
            namespace = request.run.namespace
            name = request.ended_job
            uid = request.discarded_job_uid
            if uid:  # its Pod never ran: a run that waits for days leaves nothing behind
                await self._api.delete_if_present(JOBS, namespace, name, uid=uid)
            else:
                await mark_ended(self._api, request.run, name)
        return result_of_update(written.run)


def result_of_update(run: InferenceRun | None) -> StatusResult:
    """The run's status after an update; None if the run no longer exists."""
    if run is None:
        return StatusResult(gone=True, reason=Reason.RUN_DELETED, message="the run was deleted")
    status = run.status
    return StatusResult(
        phase=status.phase or Phase.PENDING,
        reason=known_reason(status.reason),
        message=status.message or "",
        duration=status.duration or "",
    )

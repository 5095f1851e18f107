"""`PublishStatus`: writes the status of a run that has not ended."""

from datetime import datetime

from temporalio import activity

from activities.cluster.deletion import delete_if_present
from activities.cluster.events import EventRecorder
from activities.cluster.job_marks import mark_ended
from activities.rules.status_results import result_of_update
from inferrun.control.run_status import status_after
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.timestamps import utc_now
from workflows import activity_options
from workflows.messages import PublishInput, StatusResult


class StatusPublisher:
    """One instance serves all runs of a worker."""

    def __init__(self, api: KubeClient, runs: RunStore, *, events: EventRecorder) -> None:
        self._api = api
        self._runs = runs
        self._events = events

    @activity.defn(name=activity_options.PUBLISH.name)
    async def publish_status(self, request: PublishInput) -> StatusResult:
        """Write the status and an Event; a run that has ended keeps its status."""

        def decide(run: InferenceRun) -> InferenceRunStatus:
            return status_after(
                run,
                phase=request.phase,
                reason=request.reason,
                message=request.message,
                now=utc_now(),
                cleared=("running_since", "pace"),
                ended_launches=request.ended_launches or None,
                seconds_used=round(request.seconds_used),
                attempt=request.attempt,
                uncounted_attempts=request.uncounted or None,
                attempts=[item.model_dump() for item in request.attempts] or None,
                start_time=run.status.start_time or _first_start(request),
            )

        written = await self._runs.update_status(request.run, decide, read=self._runs.watched(request.run))
        if written.changed:
            await self._events.record(
                request.run, reason=request.reason, message=request.message, is_warning=request.warning
            )
        if request.ended_job and written.run is not None:
            await self._end_job(request)
        return result_of_update(written.run)

    async def _end_job(self, request: PublishInput) -> None:
        """Mark the Job as ended. One whose Pod never ran is deleted: a run that waits for days leaves nothing behind."""
        namespace, name, uid = request.run.namespace, request.ended_job, request.discarded_job_uid
        if uid:
            await delete_if_present(self._api, JOBS, namespace, name, uid=uid)
        else:
            await mark_ended(self._api, request.run, name)


def _first_start(request: PublishInput) -> datetime | None:
    """When the first container of the listed attempts started: one that ended at once was not seen to run."""
    return next((item.start_time for item in request.attempts if item.start_time is not None), None)

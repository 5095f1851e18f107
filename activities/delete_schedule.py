"""`DeleteSchedule`: deletes the Temporal schedule of a scheduled run that no longer exists."""

from temporalio import activity
from temporalio.client import Client

from control.temporal_calls import ignore_not_found, read_run
from inferrun.kube.runs import RunStore
from inferrun.names import schedule_id
from workflows import activity_options
from workflows.messages import DeleteScheduleInput, DeletionResult


class ScheduleDeleter:
    def __init__(self, temporal: Client, runs: RunStore, *, installation: str) -> None:
        self._temporal = temporal
        self._runs = runs
        self._installation = installation

    @activity.defn(name=activity_options.DELETE_SCHEDULE.name)
    async def delete_schedule(self, request: DeleteScheduleInput) -> DeletionResult:
        """Delete the schedule if it is ours and its own run is gone; one that is already gone is
        success.

        The id of a schedule contains only a part of a long name, so the caller's word is not
        enough.
        """
        with ignore_not_found():
            handle = self._temporal.get_schedule_handle(schedule_id(request.parent))
            run = await read_run(await handle.describe(), installation=self._installation)
            if run is not None and await self._runs.read(run) is None:
                await handle.delete()
        return DeletionResult()

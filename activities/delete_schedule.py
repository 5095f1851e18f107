"""`DeleteSchedule`: deletes the Temporal schedule of a scheduled run that no longer exists."""

from temporalio import activity
from temporalio.client import Client

from inferrun.names import schedule_id
from inferrun.temporal.errors import ignore_not_found
from workflows import activity_options
from workflows.messages import DeleteScheduleInput, DeletionResult


class ScheduleDeleter:
    """One instance serves all submissions of a worker."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal

    @activity.defn(name=activity_options.DELETE_SCHEDULE.name)
    async def delete_schedule(self, request: DeleteScheduleInput) -> DeletionResult:
        """Delete the schedule; one that is already gone is success."""
        with ignore_not_found():
            await self._temporal.get_schedule_handle(schedule_id(request.parent)).delete()
        return DeletionResult()

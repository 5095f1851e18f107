"""What a schedule has started, as Temporal lists it."""

import asyncio
from typing import Final

from temporalio.client import Client, ScheduleActionExecutionStartWorkflow

from control.temporal_calls import TIMING, call_deadline, ignore_not_found
from inferrun.names import schedule_id
from inferrun.run_ref import RunRef

TRIES: Final = 5
"""The number of times that a schedule is asked, once a second: it lists an action only after having
started it."""


class ScheduleActions:
    """The latest actions of schedules. They name a workflow that was started because somebody
    triggered the schedule."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal

    async def has_started(self, schedule: RunRef, workflow_id: str) -> bool:
        """Whether the workflow is one of them; False if Temporal has no such schedule."""
        handle = self._temporal.get_schedule_handle(schedule_id(schedule))
        for earlier_tries in range(TRIES):
            if earlier_tries:
                await asyncio.sleep(1)
            found = None
            with ignore_not_found():
                async with call_deadline(seconds=TIMING.schedule_call):
                    found = await handle.describe()
            if found is None:
                return False
            actions = [
                *found.info.running_actions,
                *(recent.action for recent in found.info.recent_actions),
            ]
            started = [
                one.workflow_id
                for one in actions
                if isinstance(one, ScheduleActionExecutionStartWorkflow)
            ]
            if workflow_id in started:
                return True
        return False

"""Keeps the Temporal schedules of scheduled runs in line with their specs and reports on their statuses.

The shim writes the status of a schedule because no workflow exists for it; the runs that it starts have workflows.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from temporalio.client import Client

from control.search_attributes import SearchAttributes
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.runs import Decide, RunStore
from inferrun.names import schedule_id
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.timestamps import utc_now
from operator_shim.schedule_spec import schedule_of
from operator_shim.schedule_status import rejected_status, schedule_status
from operator_shim.temporal_schedules import TemporalSchedules

logger = logging.getLogger(__name__)

DELAY_AFTER_FIRE: Final = 1.0
"""Seconds after a fire time until the next fire times are read."""

MAX_INTERVAL: Final = 300.0
"""Maximum number of seconds between two checks of a schedule; a change made in the Temporal UI is reverted within this time."""


class Schedules:
    """The scheduled runs of this installation."""

    def __init__(
        self, api: KubeClient, client: Client, *, installation: str, task_queue: str, attributes: SearchAttributes
    ) -> None:
        self._runs = RunStore(api)
        self._schedules = TemporalSchedules(
            client, installation=installation, task_queue=task_queue, attributes=attributes
        )

    async def reconcile(self, run: InferenceRun, *, children: Iterable[InferenceRun]) -> float:
        """Create or update the schedule and write its status; returns the seconds until the next check."""
        created = list(children)
        times = await self._schedules.ensure(schedule_of(run), config=run.spec.config_ref.name)
        now = utc_now()
        await self._write(
            run,
            lambda current: schedule_status(
                current, next_times=times.next_times, last_time=times.last_time, children=created, now=now
            ),
        )
        return _seconds_until_next_check(times.next_times, now=now)

    async def reject(
        self, run: InferenceRun, *, children: Iterable[InferenceRun], reason: Reason, message: str
    ) -> None:
        """Pause the schedule of a run with an invalid spec, and report what is invalid."""
        await self._schedules.pause(schedule_id(run.ref), note=f"{reason}: {message}"[:512])
        created, now = list(children), utc_now()
        await self._write(
            run, lambda current: rejected_status(current, children=created, reason=reason, message=message, now=now)
        )

    async def delete(self, run: InferenceRun) -> None:
        """Delete the schedule of a deleted run."""
        await self._schedules.delete(schedule_id(run.ref))

    async def sweep(self, is_watched: Callable[[RunRef], bool], *, namespaces: Namespaces) -> None:
        """Delete schedules whose InferenceRun was deleted while no shim was watching.

        The API server is queried only for runs that are not watched, in the watched `namespaces`.
        """
        for identity, run in (await self._schedules.list_owned()).items():
            is_suspect = run.namespace in namespaces and not is_watched(run)
            if is_suspect and await self._runs.read(run) is None:
                logger.info("deleting a schedule whose InferenceRun no longer exists", extra={"schedule": identity})
                await self._schedules.delete(identity)

    async def _write(self, run: InferenceRun, decide: Decide) -> None:
        def if_current(current: InferenceRun) -> InferenceRunStatus | None:
            return decide(current) if current.metadata.generation == run.metadata.generation else None

        await self._runs.update_status(run.ref, if_current, read=run)


def _seconds_until_next_check(next_times: Iterable[datetime], *, now: datetime) -> float:
    waits = [(moment - now).total_seconds() + DELAY_AFTER_FIRE for moment in next_times if moment > now]
    return min([MAX_INTERVAL, *waits])

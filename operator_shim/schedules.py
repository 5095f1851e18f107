"""Keeps the Temporal schedules of scheduled runs: as their specs say, with what follows on their status.

The shim writes the status of a schedule, for which no workflow exists; its runs have workflows of their own.
"""

import logging
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from inferrun.control.run_status import status_after
from inferrun.kube.client import KubeClient
from inferrun.kube.runs import Decide, RunStore
from inferrun.names import schedule_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from operator_shim.schedule_spec import schedule_of
from operator_shim.schedule_status import refused_status, schedule_status
from operator_shim.temporal_schedules import TemporalSchedules

logger = logging.getLogger(__name__)

AFTER_A_FIRE: Final = 1.0
"""Seconds after a nominal time at which the next times are read again."""

LONGEST_PAUSE: Final = 300.0
"""Seconds between two looks at a schedule at most: a change made by hand in the UI is undone by then."""


class Schedules:
    """The scheduled runs of the installation."""

    def __init__(
        self, api: KubeClient, client: Client, *, installation: str, task_queue: str, has_attributes: bool = False
    ) -> None:
        self._runs = RunStore(api)
        self._schedules = TemporalSchedules(
            client, installation=installation, task_queue=task_queue, has_attributes=has_attributes
        )

    async def keep(self, run: InferenceRun, *, children: Iterable[InferenceRun]) -> float:
        """See that the schedule is as the spec says and tell it; the seconds until it is worth another look."""
        made = list(children)
        try:
            fires = await self._schedules.ensure(schedule_of(run), config=run.spec.config_ref.name)
        except RPCError:
            await self._write(run, _not_kept_yet)
            raise
        now = datetime.now(UTC)
        await self._write(
            run,
            lambda current: schedule_status(
                current, next_times=fires.next_times, last_time=fires.last_time, children=made, now=now
            ),
        )
        return _until_next_look(fires.next_times, now=now)

    async def refuse(self, run: InferenceRun, *, reason: Reason, message: str) -> None:
        """Let nothing fire for a spec that is wrong, and say what is wrong."""
        await self._schedules.pause(schedule_id(run.ref), note=f"{reason}: {message}"[:512])
        now = datetime.now(UTC)
        await self._write(run, lambda current: refused_status(current, reason=reason, message=message, now=now))

    async def delete(self, run: InferenceRun) -> None:
        """Delete the schedule of a run that is gone."""
        await self._schedules.delete(schedule_id(run.ref))

    async def sweep(self, known: Collection[str], *, namespace: str | None) -> None:
        """Delete schedules whose InferenceRun is gone and whose deletion no shim has seen.

        `known` are the UIDs of runs that the watch has; only for others the API server is asked. `namespace`: the one
        that is watched, None for all.
        """
        for identity, run in (await self._schedules.kept()).items():
            is_suspect = namespace in (None, run.namespace) and run.uid not in known
            if is_suspect and await self._runs.read(run) is None:
                logger.info("a schedule has lost its InferenceRun and is deleted", extra={"schedule": identity})
                await self._schedules.delete(identity)

    async def _write(self, run: InferenceRun, decide: Decide) -> None:
        def of_this_spec(current: InferenceRun) -> InferenceRunStatus | None:
            return decide(current) if current.metadata.generation == run.metadata.generation else None

        await self._runs.update_status(run.ref, of_this_spec, read=run)


def _not_kept_yet(run: InferenceRun) -> InferenceRunStatus | None:
    """What a schedule says that was never kept, because Temporal does not answer."""
    if run.status.phase is not None:
        return None
    message = "accepted; it is scheduled once Temporal answers"
    return status_after(run, phase=Phase.PENDING, reason=Reason.ACCEPTED, message=message, now=datetime.now(UTC))


def _until_next_look(next_times: Iterable[datetime], *, now: datetime) -> float:
    waits = [(moment - now).total_seconds() + AFTER_A_FIRE for moment in next_times if moment > now]
    return min([LONGEST_PAUSE, *waits])

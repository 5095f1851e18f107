"""Periodically compares what Temporal lists with the watched runs, and repairs what no event
reports.

- Workflows that were terminated although their run has not ended: ensured again within seconds.
- Runs that were accepted a while ago and have no open workflow, as after Temporal's database was
  restored from a backup: ensured again as soon as fewer workflows are open than there should be.
- Open workflows whose run has been gone, or ended, for a while: cancelled, after which they close
  on their own.
- Schedules whose run is gone: deleted.
- Workflows whose task fails again and again: replaced by recovery workflows.
- Workflows that somebody has paused: named in the statuses of their runs, and replaced once a run
  must end.
- Finished runs whose deletion is overdue: a new clean-up is started.

Temporal allows only a few list requests per second, so each list is requested at most once per
period. Each request has a time limit, but a sweep has none: with many runs and a Temporal that is
far away it takes minutes.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from control.log_subjects import fields_of_object, fields_of_run
from control.survival import surviving
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.run_ref import RunRef
from inferrun.timestamps import parse, rfc3339
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import News
from operator_shim.run_terms import TO_DELETE, UNFINISHED, has_ended
from operator_shim.run_watch import RunWatch
from operator_shim.stuck_workflows import StuckWorkflows, has_workflow, is_said_to_be_paused
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 300.0

FIRST_SWEEP_SECONDS: Final = 15.0
"""After a start, because what was deleted while no shim was running is left over; after a sweep
that failed; and after one that found open workflows of runs that are gone. These may be about to
close: a worker that is killed takes the end of a run along, and the next one gets it from Temporal
after 10 seconds. A run that has ended and is deleted was not cancelled.
"""

RESTART_SECONDS: Final = 15.0
"""Interval at which terminated workflows are listed, normally an empty answer, and open ones are
counted.
"""

LISTING_DELAY: Final = timedelta(seconds=60)
"""Time within which Temporal certainly lists a workflow that was started or has closed."""

CLOSING_TIME: Final = timedelta(minutes=5)
"""Time that a workflow has for closing after its run ended."""

DELETION_TIME: Final = timedelta(minutes=2)
"""Time that the clean-up has for deleting a run."""


class Sweep:
    """Run it as one task."""

    def __init__(
        self,
        runs: RunStore,
        loop: RunLoop,
        workflows: RunWorkflows,
        schedules: TemporalSchedules,
        *,
        watch: RunWatch,
        namespaces: Namespaces,
        note_pause: Callable[[RunRef, str], None],
    ) -> None:
        """`note_pause` hears which workflow is paused, as in `StuckWorkflows`."""
        self._runs = runs
        self._loop = loop
        self._workflows = workflows
        self._schedules = schedules
        self._watch = watch
        self._namespaces = namespaces
        self._cancelled: set[str] = set()
        """The runs whose open workflows were cancelled: Temporal remembers that until they close.
        """
        self._gone: set[str] = set()
        """The runs that were gone at the last sweep and had an open workflow."""
        self._stuck = StuckWorkflows(
            runs, loop, workflows, clock=time.monotonic, note_pause=note_pause
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat_all())
            tasks.create_task(self._repeat_restarts())

    async def _repeat_all(self) -> None:
        is_soon = True
        while True:
            await asyncio.sleep(FIRST_SWEEP_SECONDS if is_soon else SWEEP_SECONDS)
            is_soon = True
            if not self._watch.is_synced:  # each run that is not listed yet would be read by itself
                continue
            with surviving("the sweep"):
                is_soon = await self.sweep()

    async def _repeat_restarts(self) -> None:
        since = self._runs.now()
        while True:
            await asyncio.sleep(RESTART_SECONDS)
            # compared with Temporal's clock, from which it may differ by LISTING_DELAY
            now = self._runs.now()
            with surviving("the search for terminated workflows"):
                await self.restart_terminated(since=since)
                since = now - LISTING_DELAY
            with surviving("the search for missing and paused workflows"):
                await self.restart_missing(created_before=now - LISTING_DELAY)

    async def sweep(self) -> bool:
        """Find what is left over, and have it ended; returns whether to sweep again soon.

        A step that fails, as for lack of a permission, keeps none of the others from being done.
        """
        is_complete = False
        with surviving("the search for schedules without a run"):
            await self._find_schedules()
        with surviving("the search for workflows without a run"):
            await self._find_left_over()
            is_complete = True
        # Finished runs whose time is long over: the workflow that should have deleted them is lost.
        now = self._runs.now()
        for _, item in self._watch.find(TO_DELETE):
            with surviving("the search for a finished run to delete", about=item):
                is_overdue = now - parse(str(item["status"]["deleteAfter"])) > DELETION_TIME
                if is_overdue and not item["metadata"].get("deletionTimestamp"):
                    logger.info(
                        "deleting a finished run that is overdue", extra=fields_of_object(item)
                    )
                    self._loop.wake(RunRef.of(item), News.OVERDUE)
        await self._stuck.repair(item for _, item in self._watch.find(UNFINISHED))
        return bool(self._gone) or not is_complete

    async def _find_schedules(self) -> None:
        """Those whose InferenceRun was deleted while no shim was watching, in the watched
        namespaces.
        """
        for run in await self._schedules.list_owned():
            with surviving("the search for the run of a schedule", about=run):
                may_be_gone = run.namespace in self._namespaces and self._watch.seen(run) is None
                if may_be_gone and await self._runs.read(run) is None:
                    logger.info(
                        "deleting a schedule whose InferenceRun no longer exists",
                        extra=fields_of_run(run),
                    )
                    self._loop.wake(run, News.SCHEDULE_LEFT)

    async def _find_left_over(self) -> None:
        opened = await self._workflows.list_open()
        self._cancelled &= {run.uid for run in opened}
        gone_before, self._gone = self._gone, set()
        for run in opened:
            with surviving("the search for the run of a workflow", about=run):
                watched = self._watch.seen(run)
                if run.uid in self._cancelled:
                    await self._stuck.end_paused(run)
                elif not await self._is_left_over(run, watched):
                    pass
                elif watched is None and run.uid not in gone_before:
                    self._gone.add(run.uid)
                else:
                    logger.info("cancelling a workflow that is left over", extra=fields_of_run(run))
                    self._loop.wake(run, News.WORKFLOW_LEFT)
                    self._cancelled.add(run.uid)

    async def restart_terminated(self, *, since: datetime) -> None:
        """Make sure that a workflow executes each run whose workflow was terminated since that
        time.
        """
        for run in await self._workflows.list_terminated(since=since):
            with surviving("the replacement of a terminated workflow", about=run):
                watched = self._watch.seen(run)
                if watched is not None and not has_ended(watched):
                    logger.info(
                        "the workflow of an unfinished run was terminated",
                        extra=fields_of_object(watched),
                    )
                    self._loop.wake(run, News.LOST, background=True)

    async def restart_missing(self, *, created_before: datetime) -> None:
        """Make sure that a workflow executes each accepted run that was created before that time
        and has no open workflow, and deal with those that are paused.

        They are listed only if fewer workflows are running than there should be, because counting
        is cheap.
        """
        before, told = rfc3339(created_before), set[str]()
        begun, executed = dict[str, Object](), set[str]()
        for _, item in self._watch.find(UNFINISHED):
            with surviving("the search for a missing workflow", about=item):
                uid = item["metadata"]["uid"]
                if has_workflow(item):
                    if item["metadata"]["creationTimestamp"] < before:
                        executed.add(uid)
                    begun[uid] = item
                    if is_said_to_be_paused(item):
                        told.add(uid)
        if not begun:
            return
        running, held = await self._workflows.count_open(), set[str]()
        if running < len(begun):
            held = {run.uid for run in await self._workflows.list_paused()} & begun.keys()
        for uid in held | told:
            await self._stuck.check(begun[uid])
        if running + len(held) >= len(executed):
            return
        found = {run.uid for run in await self._workflows.list_open()}
        if missing := executed - found:
            logger.warning("unfinished runs have no workflow", extra={"runs": len(missing)})
        for uid in missing:
            self._loop.wake(RunRef.of(begun[uid]), News.LOST, background=True)

    async def _is_left_over(self, run: RunRef, watched: Object | None) -> bool:
        """Whether nothing remains for the run's workflow to do. The watch does not keep when the
        end was recorded.
        """
        if run.namespace not in self._namespaces or (
            watched is not None and not has_ended(watched)
        ):
            return False
        try:
            found = await self._runs.read(run)
        except ValidationError:
            return False  # it cannot be read, which must not keep the others from being swept
        if watched is None:
            return found is None
        ended = found.status.recorded_at if found is not None else None  # None: it is being deleted
        return ended is not None and self._runs.now() - ended > CLOSING_TIME

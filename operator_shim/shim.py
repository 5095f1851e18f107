"""The shim: the watches of runs, configs and models, the loop over runs, and what looks from time
to time for what no event reports.

Running two shims is safe, because every action is idempotent.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from control.cluster.events import EventRecorder
from control.metrics import Metrics
from control.survival import surviving
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from operator_shim.configs import Configs
from operator_shim.models import ModelWatches
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import News
from operator_shim.run_terms import UNFINISHED
from operator_shim.run_watch import RunWatch
from operator_shim.schedules import Schedules
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows

RESYNC_PER_SECOND: Final = 20
"""Runs queued per second during a resync, so that a resync puts no load on Temporal that anybody
notices.
"""


class Shim:
    """Run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        *,
        run_watch: RunWatch,
        workflows: RunWorkflows,
        schedules: TemporalSchedules,
        namespaces: Namespaces,
        workers: int,
        resync_seconds: int,
        defaults: Callable[[], Defaults],
        runner_account: str,
        events: EventRecorder,
        metrics: Metrics,
        note_pause: Callable[[RunRef, str], None],
    ) -> None:
        """`note_pause` hears which workflow is paused, as in `operator_shim.stuck_workflows`."""
        runs = RunStore(api)
        self._resync_seconds = resync_seconds
        self._run_watch = run_watch
        self.loop = RunLoop(
            api,
            run_watch,
            workflows=workflows,
            schedules=Schedules(runs, schedules, watch=run_watch, events=events),
            defaults=defaults,
            workers=workers,
            metrics=metrics,
        )
        self._models = ModelWatches(api, self.loop, namespaces=namespaces, runs=run_watch)
        self._configs = Configs(
            api,
            self.loop,
            runs=run_watch,
            namespaces=namespaces,
            events=events,
            defaults=defaults,
            runner_account=runner_account,
            metrics=metrics,
        )
        self._sweep = Sweep(
            runs,
            self.loop,
            workflows,
            schedules,
            watch=run_watch,
            namespaces=namespaces,
            note_pause=note_pause,
        )

    @property
    def is_ready(self) -> bool:
        return self._run_watch.is_synced and self._configs.watch.is_synced

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self._run_watch, self.loop, self._models, self._configs, self._sweep):
                tasks.create_task(part.run())
            tasks.create_task(self._resync())

    async def _resync(self) -> None:
        """Periodically look at everything that has not ended, in case an event or a workflow was
        lost.
        """
        while True:
            await asyncio.sleep(self._resync_seconds)
            for _, item in self._run_watch.find(UNFINISHED):
                with surviving("the resync of a run", about=item):
                    self.loop.wake(RunRef.of(item), News.LOST, background=True)
                await asyncio.sleep(1 / RESYNC_PER_SECOND)
            self._configs.resync()

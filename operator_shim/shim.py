"""The shim: watches runs and configs, and passes each changed object to the lanes that act on it.

Its only state is the watches' cache: if a shim is killed between seeing a run and starting its workflow, the next one sees
the same run. Running two shims is safe, because every action is idempotent. It writes a run's status only before a
workflow exists, and afterwards only that the workflow has received an edit.

Each kind of action has a queue and workers of its own, so that what is slow delays nothing else: first statuses, workflows,
deletions, schedules, marks and configs.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pydantic import ValidationError

from control.cluster.events import EventRecorder
from control.informer import Key
from control.metrics import Metrics
from control.namespaced_informers import NamespacedInformers
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import CONFIGS, Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_status import REJECTIONS
from operator_shim.acceptance import Acceptance
from operator_shim.configs import ConfigStatuses
from operator_shim.decisions import digest_config
from operator_shim.deletions import Deletions
from operator_shim.executions import Executions
from operator_shim.models import ModelWatches
from operator_shim.run_watch import (
    UNFINISHED,
    RunWatch,
    awaited_run,
    has_ended,
    is_backfilled,
    reading,
    sees_change,
    unfinished_with,
)
from operator_shim.schedules import Schedules
from operator_shim.start_marks import StartMarks
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows

RESYNC_PER_SECOND: Final = 20
"""Runs queued per second during a resync, so that a resync puts no load on Temporal that anybody notices."""

CONFIG_WORKERS: Final = 2


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
        note_pause: Callable[[RunRef, str], None] = lambda _run, _text: None,
    ) -> None:
        """`note_pause` hears which workflow is paused, as in `operator_shim.stuck_workflows`."""
        runs = RunStore(api)
        self._resync_seconds = resync_seconds
        self._run_watch = run_watch
        run_watch.subscribe(self._on_run_event)
        self._config_watch = NamespacedInformers(
            api,
            CONFIGS,
            namespaces=namespaces,
            transform=digest_config,
            listener=self._on_config_event,
            keeps_stubs=True,
        )

        self._deletions = Deletions(api, workflows, schedules, metrics=metrics)
        self._schedules = Schedules(
            runs,
            schedules,
            watch=run_watch,
            clean_up=self._deletions.add,
            events=events,
            defaults=defaults,
            metrics=metrics,
        )
        self._executions = Executions(
            runs,
            workflows,
            read=self._read_run,
            reject=lambda key: self._acceptance.reject(key),  # noqa: PLW0108 -- it is created below
            clean_up=self._deletions.add,
            defaults=defaults,
            workers=workers,
            metrics=metrics,
        )
        self._models = ModelWatches(api, namespaces=namespaces, read=self._read_run, recheck=self._executions.recheck)
        self._acceptance = Acceptance(
            runs,
            read=self._read_run,
            is_under_way=self._executions.is_under_way,
            has_too_many=self._executions.has_too_many,
            defaults=defaults,
            workers=workers,
            metrics=metrics,
        )
        self._marks = StartMarks(api, read=self._read_run, metrics=metrics)
        configs = ConfigStatuses(
            api,
            read=lambda key: self._config_watch.get(*key),
            events=events,
            active_runs=self._active_runs,
            defaults=defaults,
            runner_account=runner_account,
        )
        self._config_queue: WorkQueue[Key] = WorkQueue(
            configs.update, workers=CONFIG_WORKERS, group=lambda key: key[0], metrics=metrics, name="configs"
        )
        self._sweep = Sweep(
            runs,
            workflows,
            schedules,
            watch=self._run_watch,
            ensure_again=self._executions.ensure_again,
            namespaces=namespaces,
            note_pause=note_pause,
        )

    @property
    def is_ready(self) -> bool:
        return self._run_watch.is_synced and self._config_watch.is_synced

    async def run(self) -> None:
        watches = (self._run_watch, self._config_watch, self._models)
        lanes = (self._acceptance, self._executions, self._deletions, self._schedules, self._marks, self._config_queue)
        async with asyncio.TaskGroup() as tasks:
            for part in (*watches, *lanes, self._sweep):
                tasks.create_task(part.run())
            tasks.create_task(self._resync())

    async def _resync(self) -> None:
        """Periodically reconcile everything that has not ended, in case an event or a workflow was lost."""
        while True:
            await asyncio.sleep(self._resync_seconds)
            for key, item in self._run_watch.find(UNFINISHED):
                with surviving("the resync of a run", about=item):
                    if _is_schedule(item):
                        self._schedules.add(key, background=True)
                    else:
                        self._executions.ensure_again(key, item["metadata"]["uid"])
                await asyncio.sleep(1 / RESYNC_PER_SECOND)
            for key in self._config_watch.keys():  # noqa: SIM118 -- not a dict
                self._config_queue.add(key, background=True)

    def _read_run(self, key: Key) -> Object | None:
        return self._run_watch.get(*key)

    def _on_run_event(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or before["metadata"]["uid"] != after["metadata"]["uid"]):
            self._executions.end(key, before["metadata"]["uid"])
            with suppress(ValidationError):
                self._deletions.add(parse_run(before))
        with surviving("the search for the model that a run waits for", about=key):
            self._models.observe(key, after)
        self._recheck_readers(key, after)
        if after is not None:
            self._on_change(key, after)
            self._marks.observe(key, after)
        if after is not None and before is not None and has_ended(after) == has_ended(before):
            return
        run = after or before
        if run is None:
            return
        if is_backfilled(run):  # nothing in the status of its schedule depends on it
            backfill = (key[0], (run["metadata"].get("annotations") or {}).get(wellknown.ANNOTATION_BACKFILL, ""))
            starter = self._read_run(backfill)
            if (after is None or has_ended(after)) and starter is not None and not has_ended(starter):
                self._executions.recheck(backfill)
            return
        for owner in run["metadata"].get("ownerReferences") or []:
            if owner.get("kind") == wellknown.RUN_KIND:  # the status of a schedule lists its unfinished runs
                self._schedules.add((key[0], owner["name"]))

    def _recheck_readers(self, key: Key, item: Object | None) -> None:
        """Have the runs that wait for this one look again if it has changed, and this one if the run that it waits for has."""
        if not self._run_watch.has_listed(key[0]):
            return  # all waiting runs look again when the shim starts
        for reader, waiting in self._run_watch.find(reading(*key)):
            with surviving("the check of a run that waits for another", about=waiting):
                if sees_change(waiting, item):
                    self._executions.recheck(reader)
        name = awaited_run(item) if item is not None else None
        if item is not None and name is not None and sees_change(item, self._read_run((key[0], name))):
            self._executions.recheck(key)

    def _on_change(self, key: Key, item: Object) -> None:
        """A run that was accepted earlier and is merely listed at startup waits for those that are new."""
        is_new = not (item.get("status") or {}).get("phase")
        is_listed = not self._run_watch.has_listed(key[0]) and not is_new
        if has_ended(item) and not item["metadata"].get("deletionTimestamp"):
            self._executions.end(key, item["metadata"]["uid"])
            return
        if _is_schedule(item):
            self._schedules.add(key, background=is_listed)
        elif is_listed and _waits_for_config(item) and item["status"].get("reason") != Reason.ACCEPTED:
            self._executions.recheck(key, background=True)  # a change of its config may have been missed
        elif is_listed and item["spec"].get("backfill") is not None:
            self._executions.recheck(key, background=True)  # the end of one of its runs may have been missed
        else:
            self._executions.add(key, item, background=is_listed)
        if is_new or item["status"].get("reason") in REJECTIONS:
            self._acceptance.add(key)

    def _on_config_event(self, key: Key, before: Object | None, after: Object | None) -> None:
        is_listed = not self._config_watch.has_listed(key[0])
        self._config_queue.add(key, background=is_listed)
        if before and after and before["metadata"].get("generation") == after["metadata"].get("generation"):
            return
        for run_key, item in self._run_watch.find(unfinished_with(*key)):
            with surviving("the check of a run that waits for its config", about=item):
                if _waits_for_config(item):
                    self._executions.recheck(run_key, background=is_listed)

    async def _active_runs(self, config: Key) -> list[str]:
        """The runs in progress that started with that config; those of another namespace with its name."""
        await self._run_watch.synced()
        return [
            name if namespace == config[0] else f"{namespace}/{name}"
            for (namespace, name), item in self._run_watch.find(unfinished_with(*config))
            if (item.get("status") or {}).get("contract")
        ]


def _is_schedule(item: Object) -> bool:
    return item["spec"].get("schedule") is not None


def _waits_for_config(item: Object) -> bool:
    """Whether a change of the config may unblock the run: it is pending and has no contract yet."""
    status = item.get("status") or {}
    return status.get("phase") == Phase.PENDING and not status.get("contract")

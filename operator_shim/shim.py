"""The shim: watches runs and configs, decides what to do about each changed object, and does it.

Its only state is the watches' cache: if a shim is killed between seeing a run and starting its workflow, the next one sees
the same run. Running two shims is safe, because every action is idempotent. It writes a run's status only before a
workflow exists.
"""

import asyncio
import logging
from collections.abc import Callable

from pydantic import ValidationError
from temporalio.service import RPCError

from inferrun import wellknown
from inferrun.control.run_defaults import Defaults
from inferrun.control.run_status import status_after
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.informer import Informer, Key
from inferrun.kube.objects import CONFIGS, RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.timestamps import utc_now
from operator_shim.configs import ConfigStatuses
from operator_shim.decisions import Action, ActionKind, decide, may_write_status
from operator_shim.schedules import Schedules
from operator_shim.work_queue import WorkQueue
from operator_shim.workflows import RunWorkflows

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 300
"""Interval at which Temporal's schedules are listed; Temporal allows only a few list requests per second."""

RESYNC_PER_SECOND = 20
"""Runs queued per second during a resync, so that a resync does not delay runs that have just changed."""

CONFIG_WORKERS = 2


class Shim:
    """Run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        *,
        workflows: RunWorkflows,
        schedules: Schedules,
        namespace: str | None,
        workers: int,
        resync_seconds: int,
        defaults: Callable[[], Defaults],
        runner_account: str,
    ) -> None:
        self._api = api
        self._runs = RunStore(api)
        self._workflows = workflows
        self._schedules = schedules
        self._namespace = namespace or None
        self._resync_seconds = resync_seconds
        self._queue: WorkQueue[Key] = WorkQueue(self._reconcile, workers=workers)
        self._deleted: dict[Key, dict[str, InferenceRun]] = {}
        self._notified_generation: dict[str, int] = {}
        self._config_changed: set[Key] = set()
        self._run_watch = Informer(api, RUNS, namespace=namespace, listener=self._on_run_event)
        self._configs = ConfigStatuses(api, defaults=defaults, runner_account=runner_account)
        self._config_queue: WorkQueue[Key] = WorkQueue(self._reconcile_config, workers=CONFIG_WORKERS)
        self._config_watch = Informer(api, CONFIGS, namespace=namespace, listener=self._on_config_event)

    @property
    def is_ready(self) -> bool:
        """Whether runs and configs have been listed."""
        return self._run_watch.synced.is_set() and self._config_watch.synced.is_set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_watch.run())
            tasks.create_task(self._config_watch.run())
            tasks.create_task(self._queue.run())
            tasks.create_task(self._config_queue.run())
            tasks.create_task(self._resync())
            tasks.create_task(self._sweep())

    async def _resync(self) -> None:
        """Periodically reconcile everything that has not ended, in case an event or a signal was missed."""
        while True:
            await asyncio.sleep(self._resync_seconds)
            self._notified_generation.clear()
            for key, item in self._run_watch.items():
                if not _has_ended(item):
                    self._queue.add(key)
                    await asyncio.sleep(1 / RESYNC_PER_SECOND)
            for key in self._config_watch.keys():  # noqa: SIM118 -- not a dict
                self._config_queue.add(key)

    async def _sweep(self) -> None:
        """Periodically delete Temporal schedules whose run was deleted while no shim was watching."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            known = {item["metadata"]["uid"] for _, item in self._run_watch.items()}
            try:
                await self._schedules.sweep(known, namespace=self._namespace)
            except (RPCError, KubeError) as error:
                logger.warning("sweeping schedules failed", extra={"error": str(error)[:500]})

    def _on_run_event(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or before["metadata"]["uid"] != after["metadata"]["uid"]):
            self._remember_deleted(key, before)
        self._queue.add(key)
        if after is not None and before is not None and _has_ended(after) == _has_ended(before):
            return
        for owner in (after or before or {}).get("metadata", {}).get("ownerReferences") or []:
            if owner.get("kind") == wellknown.RUN_KIND:  # the status of a schedule lists its unfinished runs
                self._queue.add((key[0], owner["name"]))

    def _remember_deleted(self, key: Key, item: Object) -> None:
        try:
            run = parse_run(item)
        except ValidationError:
            return
        self._deleted.setdefault(key, {})[run.metadata.uid] = run

    def _on_config_event(self, key: Key, before: Object | None, after: Object | None) -> None:
        self._config_queue.add(key)
        if before is not None and after is not None:
            is_same = before["metadata"].get("generation") == after["metadata"].get("generation")
            if is_same:
                return
        for run_key, item in self._run_watch.items():
            reference = item["spec"].get("configRef") or {}
            if (reference.get("namespace") or run_key[0], reference.get("name")) == key and _waits_for_config(item):
                self._config_changed.add(run_key)
                self._queue.add(run_key)

    async def _reconcile(self, key: Key) -> None:
        for run in list(self._deleted.get(key, {}).values()):
            self._notified_generation.pop(run.metadata.uid, None)
            await self._clean_up(run)
            self._deleted[key].pop(run.metadata.uid)
        if not self._deleted.get(key):
            self._deleted.pop(key, None)
        item = self._run_watch.get(*key)
        if item is not None:
            await self._act(parse_run(item))

    async def _clean_up(self, run: InferenceRun) -> None:
        """End what executes a deleted run, or delete its schedule."""
        if run.spec.is_schedule:
            await self._schedules.delete(run)
        elif not run.status.is_terminal:
            await self._workflows.cancel(run)
            await self._workflows.notify_submitter_of_deletion(run)

    async def _act(self, run: InferenceRun) -> None:
        action = decide(run)
        if action.kind is ActionKind.REJECT:
            await self._reject(run, action)
        elif action.kind is ActionKind.SCHEDULE:
            await self._reconcile_schedule(run)
        elif action.kind is ActionKind.CANCEL:
            await self._workflows.ensure(run)  # only a workflow records an outcome
            await self._workflows.cancel(run)
        elif action.kind is ActionKind.START:
            await self._start(run)
        elif action.kind is ActionKind.CLEAN_UP:
            await self._clean_up(run)
        elif action.kind is ActionKind.REMOVE_LEGACY_FINALIZER:
            await self._clean_up(run)
            await self._remove_legacy_finalizer(run)

    async def _reject(self, run: InferenceRun, action: Action) -> None:
        if run.spec.is_schedule:
            await self._schedules.reject(run, reason=action.reason, message=action.message)
            return
        await self._write_pending(run, reason=action.reason, message=action.message)

    async def _start(self, run: InferenceRun) -> None:
        if may_write_status(run):
            message = "accepted; the workflow is being started"
            await self._write_pending(run, reason=Reason.ACCEPTED, message=message)
        await self._ensure_workflow(run)

    async def _ensure_workflow(self, run: InferenceRun) -> None:
        """Make sure that a workflow executes the run and knows its spec: once per generation, and again on resync."""
        metadata = run.metadata
        if self._notified_generation.get(metadata.uid) != metadata.generation:
            await self._workflows.ensure(run)
            if metadata.generation > 1:  # even if the status has observed it, the workflow may not have
                await self._send_edit(run)
            self._notified_generation[metadata.uid] = metadata.generation
        key = (metadata.namespace, metadata.name)
        if key in self._config_changed:
            await self._workflows.recheck(run)
            self._config_changed.discard(key)

    async def _send_edit(self, run: InferenceRun) -> None:
        if run.status.contract:
            await self._workflows.spec_changed(run)
        else:
            await self._workflows.recheck(run)

    async def _remove_legacy_finalizer(self, run: InferenceRun) -> None:
        """Remove the Krateo controller's finalizer, which nothing else would remove."""
        metadata = run.metadata
        others = [name for name in metadata.finalizers if name != wellknown.LEGACY_FINALIZER]
        condition = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        body = {"metadata": {**condition, "finalizers": others}}
        await self._api.patch(RUNS, metadata.namespace, metadata.name, body)

    async def _reconcile_schedule(self, run: InferenceRun) -> None:
        seconds = await self._schedules.reconcile(run, children=self._children(run))
        self._queue.add_later((run.metadata.namespace, run.metadata.name), seconds)

    def _children(self, run: InferenceRun) -> list[InferenceRun]:
        """The watched runs that a schedule created."""
        return [
            parse_run(item)
            for key, item in self._run_watch.items()
            if key[0] == run.metadata.namespace
            and any(owner.get("uid") == run.metadata.uid for owner in item["metadata"].get("ownerReferences") or [])
        ]

    async def _write_pending(self, run: InferenceRun, *, reason: Reason, message: str) -> None:
        def pending(current: InferenceRun) -> InferenceRunStatus | None:
            if not may_write_status(current):
                return None
            return status_after(current, phase=Phase.PENDING, reason=reason, message=message, now=utc_now())

        await self._runs.update_status(run.ref, pending, read=run)

    async def _reconcile_config(self, key: Key) -> None:
        item = self._config_watch.get(*key)
        if item is not None:
            await self._configs.update(item)


def _has_ended(item: Object) -> bool:
    return (item.get("status") or {}).get("phase") in (Phase.SUCCEEDED, Phase.FAILED)


def _waits_for_config(item: Object) -> bool:
    """Whether a change of the config may unblock the run: it is pending and has no contract yet."""
    status = item.get("status") or {}
    return status.get("phase") == Phase.PENDING and not status.get("contract")

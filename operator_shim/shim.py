"""The shim itself: watches runs and configs, looks at what changed, decides and acts.

Stateless but for the watches' copies: a shim that is killed between seeing a run and starting its workflow is followed
by one that sees the same run. Two at once do everything twice, and the second time it is done already. It writes a
run's status only before a workflow exists.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from pydantic import ValidationError
from temporalio.service import RPCError

from inferrun import wellknown
from inferrun.control.run_defaults import Defaults
from inferrun.control.run_status import status_after
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.informer import Informer, Key
from inferrun.kube.objects import CONFIGS, RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from operator_shim.configs import ConfigStatuses
from operator_shim.decisions import Action, ActionKind, accepts, decide
from operator_shim.schedules import Schedules
from operator_shim.workflows import RunWorkflows

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 300
"""Between two listings of Temporal's schedules, which allows few requests a second."""

RESYNC_PER_SECOND = 20
"""Runs looked at each second at a resync, so that it does not crowd out what just changed."""


class Shim:
    """Run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        *,
        workflows: RunWorkflows,
        schedules: Schedules,
        namespace: str | None,
        lookers: int,
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
        self._queue: WorkQueue[Key] = WorkQueue(self._look, workers=lookers)
        self._deleted: dict[Key, dict[str, InferenceRun]] = {}
        self._told: dict[str, int] = {}
        self._touched: set[Key] = set()
        self._run_watch = Informer(api, RUNS, namespace=namespace, listener=self._run_changed)
        self._configs = ConfigStatuses(api, defaults=defaults, runner_account=runner_account)
        self._config_queue: WorkQueue[Key] = WorkQueue(self._look_at_config, workers=2)
        self._config_watch = Informer(api, CONFIGS, namespace=namespace, listener=self._config_changed)

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
        """Look at everything that has not ended, now and then: what an event or a workflow missed is found here."""
        while True:
            await asyncio.sleep(self._resync_seconds)
            self._told.clear()
            for key, item in self._run_watch.items():
                if (item.get("status") or {}).get("phase") not in (Phase.SUCCEEDED, Phase.FAILED):
                    self._queue.add(key)
                    await asyncio.sleep(1 / RESYNC_PER_SECOND)
            for key in self._config_watch.keys():  # noqa: SIM118 -- not a dict
                self._config_queue.add(key)

    async def _sweep(self) -> None:
        """Delete Temporal schedules whose run is gone, now and then: a deletion that happened unseen is found here."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            known = {item["metadata"]["uid"] for _, item in self._run_watch.items()}
            try:
                await self._schedules.sweep(known, namespace=self._namespace)
            except (RPCError, KubeError) as error:
                logger.warning("the sweep of schedules failed", extra={"error": str(error)[:500]})

    def _run_changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or before["metadata"]["uid"] != after["metadata"]["uid"]):
            self._remember_deleted(key, before)
        self._queue.add(key)
        if after is not None and before is not None and _has_ended(after) == _has_ended(before):
            return
        for owner in (after or before or {}).get("metadata", {}).get("ownerReferences") or []:
            if owner.get("kind") == "InferenceRun":  # a schedule's status lists its runs
                self._queue.add((key[0], owner["name"]))

    def _remember_deleted(self, key: Key, item: Object) -> None:
        try:
            run = parse_run(item)
        except ValidationError:
            return
        self._deleted.setdefault(key, {})[run.metadata.uid] = run

    def _config_changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        self._config_queue.add(key)
        if before is not None and after is not None:
            is_same = before["metadata"].get("generation") == after["metadata"].get("generation")
            if is_same:
                return
        for run_key, item in self._run_watch.items():
            reference = item["spec"].get("configRef") or {}
            if (reference.get("namespace") or run_key[0], reference.get("name")) == key and _waits_for_config(item):
                self._touched.add(run_key)
                self._queue.add(run_key)

    async def _look(self, key: Key) -> None:
        for run in list(self._deleted.get(key, {}).values()):
            self._told.pop(run.metadata.uid, None)
            await self._let_go(run)
            self._deleted[key].pop(run.metadata.uid)
        if not self._deleted.get(key):
            self._deleted.pop(key, None)
        item = self._run_watch.get(*key)
        if item is not None:
            await self._act(parse_run(item))

    async def _let_go(self, run: InferenceRun) -> None:
        """A run that was deleted: end what executes it, or its schedule."""
        if run.spec.is_schedule:
            await self._schedules.delete(run)
        elif not run.status.is_terminal:
            await self._workflows.cancel(run)
            await self._workflows.tell_submitter_of_deletion(run)

    async def _act(self, run: InferenceRun) -> None:
        action = decide(run)
        if action.kind is ActionKind.REFUSE:
            await self._refuse(run, action)
        elif action.kind is ActionKind.SCHEDULE:
            await self._keep_schedule(run)
        elif action.kind is ActionKind.CANCEL:
            await self._workflows.ensure(run)  # an end is recorded by a workflow only
            await self._workflows.cancel(run)
        elif action.kind is ActionKind.START:
            await self._start(run)
        elif action.kind is ActionKind.LET_GO:
            await self._let_go(run)
        elif action.kind is ActionKind.RELEASE:
            await self._let_go(run)
            await self._release(run)

    async def _refuse(self, run: InferenceRun, action: Action) -> None:
        if run.spec.is_schedule:
            await self._schedules.refuse(run, reason=action.reason, message=action.message)
            return
        await self._say(run, phase=Phase.PENDING, reason=action.reason, message=action.message)

    async def _start(self, run: InferenceRun) -> None:
        if accepts(run):
            message = "accepted, its workflow is being started"
            await self._say(run, phase=Phase.PENDING, reason=Reason.ACCEPTED, message=message)
        await self._tell(run)

    async def _tell(self, run: InferenceRun) -> None:
        """See that a workflow executes the run and knows its spec; once per generation, and again at a resync."""
        metadata = run.metadata
        if self._told.get(metadata.uid) != metadata.generation:
            await self._workflows.ensure(run)
            if metadata.generation > 1:  # also where the status has seen it: the workflow may not have
                await self._tell_of_an_edit(run)
            self._told[metadata.uid] = metadata.generation
        key = (metadata.namespace, metadata.name)
        if key in self._touched:
            await self._workflows.look_again(run)
            self._touched.discard(key)

    async def _tell_of_an_edit(self, run: InferenceRun) -> None:
        if run.status.contract:
            await self._workflows.spec_changed(run)
        else:
            await self._workflows.look_again(run)

    async def _release(self, run: InferenceRun) -> None:
        """Let a run go that the Krateo controller held: its finalizer is nobody's any more."""
        metadata = run.metadata
        left = [name for name in metadata.finalizers if name != wellknown.LEGACY_FINALIZER]
        condition = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        await self._api.patch(RUNS, metadata.namespace, metadata.name, {"metadata": {**condition, "finalizers": left}})

    async def _keep_schedule(self, run: InferenceRun) -> None:
        seconds = await self._schedules.keep(run, children=self._children(run))
        self._queue.add_later((run.metadata.namespace, run.metadata.name), seconds)

    def _children(self, run: InferenceRun) -> list[InferenceRun]:
        """The runs that a schedule made, as last seen."""
        return [
            parse_run(item)
            for key, item in self._run_watch.items()
            if key[0] == run.metadata.namespace
            and any(owner.get("uid") == run.metadata.uid for owner in item["metadata"].get("ownerReferences") or [])
        ]

    async def _say(self, run: InferenceRun, *, phase: Phase, reason: Reason, message: str) -> None:
        def to_say(current: InferenceRun) -> InferenceRunStatus | None:
            if not accepts(current):
                return None
            return status_after(current, phase=phase, reason=reason, message=message, now=datetime.now(UTC))

        await self._runs.update_status(run.ref, to_say, read=run)

    async def _look_at_config(self, key: Key) -> None:
        item = self._config_watch.get(*key)
        if item is not None:
            await self._configs.tell(item)


def _has_ended(item: Object) -> bool:
    return (item.get("status") or {}).get("phase") in (Phase.SUCCEEDED, Phase.FAILED)


def _waits_for_config(item: Object) -> bool:
    """Whether a run waits, without a Job, for something that its config may change."""
    status = item.get("status") or {}
    return status.get("phase") == Phase.PENDING and not status.get("contract")

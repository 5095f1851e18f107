"""Starts the workflows of runs, and sends them edits and cancellations.

The queues call Temporal and nothing else of the shim waits for it. What has been done for a run is remembered, so that
the many changes of a run's status cost no request; a resync forgets it.

A worker executes the steps of all namespaces, so what is handed to it is what others wait behind. Runs are therefore started, or
signalled to look again, a few of each namespace at a time: the next one follows when the watch shows that one has come further.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from temporalio.service import RPCError

from control.informer import Key
from control.log_subjects import fields_of_object, log_about
from control.metrics import Metrics
from control.work_queue import WorkQueue
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_status import acknowledged_status
from operator_shim.decisions import OWN_REASONS, ActionKind, decide, has_unacknowledged_edit
from operator_shim.run_watch import awaited_run, has_ended
from operator_shim.workflows import RunWorkflows

MAX_EDITS: Final = 5
"""Consecutive edits that are sent before other runs get their turn."""

MOVING_SECONDS: Final = 1.0
"""After Temporal has accepted a workflow, how long the runs that wait for their turn are taken to move on."""

STARTS: Final = 40

STARTS_PER_NAMESPACE: Final = 4
"""Runs of a namespace that are launched at a time. They share the worker with what others wait for, which therefore takes up to
five times as long. More would hardly launch them faster, because launches are bound by CPU; two take twice as long (measured)."""

PATIENCE_SECONDS: Final = 2.0
"""After this time a run counts as launched, whatever is known of it: no worker may be running, or nothing has changed."""


class Executions:
    """One lane of the shim; `read` returns a run as last seen by the watch.

    `reject` and `clean_up` pass a run on to the lane that reports an invalid spec, or that ends a deleted run.
    """

    def __init__(
        self,
        runs: RunStore,
        workflows: RunWorkflows,
        *,
        read: Callable[[Key], Object | None],
        reject: Callable[[Key], None],
        clean_up: Callable[[InferenceRun], None],
        defaults: Callable[[], Defaults],
        workers: int,
        metrics: Metrics,
    ) -> None:
        self._runs = runs
        self._workflows = workflows
        self._read = read
        self._reject = reject
        self._clean_up = clean_up
        self._queue: WorkQueue[Key] = WorkQueue(
            self._reconcile, workers=workers, group=lambda key: key[0], metrics=metrics, name="executions"
        )
        self._defaults = defaults
        self._starts: WorkQueue[Key] = WorkQueue(
            self._start,
            workers=STARTS,
            group=lambda key: key[0],
            per_group=STARTS_PER_NAMESPACE,
            metrics=metrics,
            name="starts",
        )
        self._active: defaultdict[str, set[str]] = defaultdict(set)
        """The UIDs, by namespace, of the runs that were started and have not ended, as far as it
        was seen."""
        self._waiting: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """The runs of each namespace that wait until fewer are active, in the order in which they
        began to."""
        self._changes: dict[Key, asyncio.Event] = {}
        """Set at each change of a run that is being launched."""
        self._ensured: set[str] = set()
        self._accepted_at = -MOVING_SECONDS
        self._rechecks: set[Key] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run())
            tasks.create_task(self._starts.run())

    def add(self, key: Key, item: Object, *, background: bool) -> None:
        """Reconcile a run that has changed, unless there is nothing to do for it."""
        if has_ended(item):
            self.end(key, item["metadata"]["uid"])  # a finalizer may keep it for long
        elif awaited_run(item) is not None:
            self._release(key, item["metadata"]["uid"])
        elif is_started(item) and item["spec"].get("backfill") is None:  # a back-fill leaves the room to its runs
            self._active[key[0]].add(item["metadata"]["uid"])
            self._waiting[key[0]].pop(key, None)  # another shim may have started it
        if key in self._changes:
            self._changes[key].set()
        metadata, status = item["metadata"], item.get("status") or {}
        is_wanted = wellknown.ANNOTATION_CANCEL_REQUESTED not in (metadata.get("annotations") or {})
        is_wanted = is_wanted and metadata["uid"] in self._ensured and not metadata.get("deletionTimestamp")
        # Most changes are of the status alone: then there is nothing to reconcile.
        if not is_wanted or metadata.get("generation", 1) > max(1, status.get("observedGeneration", 1)):
            self._queue.add(key, background=background)

    def recheck(self, key: Key, *, background: bool = False) -> None:
        """Have the run's workflow check again what it waits for."""
        self._rechecks.add(key)
        self._queue.add(key, background=background)

    def ensure_again(self, key: Key, uid: str) -> None:
        """Check again, in the background, that a workflow executes the run."""
        self._ensured.discard(uid)
        self._queue.add(key, background=True)

    def end(self, key: Key, uid: str) -> None:
        self._ensured.discard(uid)
        self._rechecks.discard(key)
        if key in self._changes:
            self._changes[key].set()
        self._active[key[0]].discard(uid)
        self._wait_no_more(key)

    def has_too_many(self, key: Key) -> bool:
        """Whether the run waits because its namespace has as many active runs as allowed."""
        return key in self._waiting.get(key[0], ())

    def is_under_way(self, uid: str) -> bool:
        """Whether Temporal has accepted the workflow of the run, or just now another one."""
        is_moving = asyncio.get_running_loop().time() - self._accepted_at < MOVING_SECONDS
        return uid in self._ensured or is_moving

    def _release(self, key: Key, uid: str) -> None:
        """A run that waits for another run takes no room: that run may need it."""
        if uid in self._active[key[0]]:
            self._active[key[0]].discard(uid)
            self._wait_no_more(key)

    def _wait_no_more(self, key: Key) -> None:
        """The run takes none of the room in its namespace: those that waited longest are started there."""
        namespace, _ = key
        self._waiting[namespace].pop(key, None)
        for waiting in list(self._waiting[namespace])[: self._room(namespace)]:
            self._starts.add(waiting)
        if not self._active[namespace] and not self._waiting[namespace]:
            del self._active[namespace], self._waiting[namespace]

    async def _reconcile(self, key: Key) -> None:
        item = self._read(key)
        if item is None:
            self._rechecks.discard(key)
            return
        log_about(fields_of_object(item))
        run = parse_run(item)
        action = decide(run, defaults=self._defaults())
        if action.kind is ActionKind.REJECT:
            self._reject(key)
        elif action.kind is ActionKind.CLEAN_UP:
            self._clean_up(run)
        elif action.kind is ActionKind.CANCEL:
            await self._ensure(run)  # only a workflow records an outcome
            await self._workflows.cancel(run.ref)
        elif action.kind is ActionKind.START:
            is_new = run.metadata.uid not in self._ensured and not is_started(item)
            # After a restart, which lists all configs, their runs are not ensured yet and do not take turns.
            is_unblocked = run.metadata.uid in self._ensured and key in self._rechecks
            if (is_new or is_unblocked) and run.spec.backfill is None:
                self._starts.add(key)
            else:
                await self._inform(key, run)

    async def _start(self, key: Key) -> None:
        """Start the run or have it look again, and return when it has come further."""
        item = self._read(key)
        if item is None or decide(run := parse_run(item), defaults=self._defaults()).kind is not ActionKind.START:
            self._wait_no_more(key)  # it was paused, for instance, since it began to wait
            return
        log_about(fields_of_object(item))
        namespace, uid = key[0], run.metadata.uid
        takes_room = uid not in self._active[namespace] and (not is_started(item) or awaited_run(item) is not None)
        if takes_room and not self._room(namespace):
            self._waiting[namespace].setdefault(key)
            self._reject(key)
            return
        self._waiting[namespace].pop(key, None)
        self._active[namespace].add(uid)
        change = self._changes[key] = asyncio.Event()
        try:
            await self._inform(key, run)
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while not _has_come_further(self._read(key), since=item):
                        change.clear()
                        await change.wait()
        finally:
            del self._changes[key]
            if (now := self._read(key)) is not None and awaited_run(now) is not None:
                self._release(key, uid)

    def _room(self, namespace: str) -> int:
        limit = self._defaults().max_active_runs_per_namespace
        return max(0, limit - len(self._active[namespace])) if limit else STARTS

    async def _inform(self, key: Key, run: InferenceRun) -> None:
        """Make sure that a workflow executes the run and knows of what has changed."""
        await self._ensure(run)
        await self._send_edits(run)
        if key not in self._rechecks:
            return
        self._rechecks.discard(key)  # a change while the signal is being sent needs another one
        try:
            await self._workflows.recheck(run.ref)
        except (RPCError, TimeoutError):
            self._rechecks.add(key)
            raise

    async def _ensure(self, run: InferenceRun) -> None:
        if run.metadata.uid not in self._ensured:
            await self._workflows.ensure(run, is_new=not _is_heard_of(run.status.phase, run.status.reason))
            self._ensured.add(run.metadata.uid)
            self._accepted_at = asyncio.get_running_loop().time()

    async def _send_edits(self, run: InferenceRun) -> None:
        """Send the run's workflow the spec until it has received the latest generation, and record that it has.

        Two writers acknowledge a generation in `status.observedGeneration`: LaunchJob, which has read the spec, and this
        method, after Temporal has accepted the signal. A signal is lost in neither order:

        - The edit comes before LaunchJob reads the spec: the launch acknowledges it, and no signal is needed.
        - The edit comes after that: LaunchJob acknowledges the earlier generation that it has read, even if it writes
          the status after the edit, so the edit is still unacknowledged and is signalled. The workflow applies a
          signal that arrives during a launch after the launch.
        - Another edit comes while a signal is being sent: the signal may arrive after a launch that has read, and
          acknowledged, the newer spec, and would then replace it by the older one. If the generation has changed by the
          time of the acknowledgement, the newest spec is therefore sent once more.

        A workflow that is started after the edit reads the spec itself.
        """
        if not has_unacknowledged_edit(run):
            return

        def acknowledge(current: InferenceRun) -> InferenceRunStatus | None:
            return acknowledged_status(current, generation=sent) if current.metadata.generation == sent else None

        for _ in range(MAX_EDITS):
            sent = run.metadata.generation
            await self._workflows.spec_changed(run)
            written = await self._runs.update_status(run.ref, acknowledge, read=run)
            if written.run is None or written.run.metadata.generation == sent:
                return
            run = written.run


def is_started(item: Object) -> bool:
    """Whether the run's workflow has been heard of."""
    status = item.get("status") or {}
    return _is_heard_of(status.get("phase"), status.get("reason"))


def _is_heard_of(phase: str | None, reason: str | None) -> bool:
    return bool(phase) and reason not in OWN_REASONS


def _has_come_further(item: Object | None, *, since: Object) -> bool:
    """Whether a launch has changed the run, or it is gone."""
    if item is None or item["metadata"]["uid"] != since["metadata"]["uid"]:
        return True
    now, before = item.get("status") or {}, since.get("status") or {}
    return is_started(item) and any(now.get(name) != before.get(name) for name in ("reason", "message", "jobStatus"))

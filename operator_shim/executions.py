"""Starts the workflows of runs, and sends them edits and cancellations.

The queue calls Temporal and nothing else of the shim waits for it. What has been done for a run is remembered, so that
the many changes of a run's status cost no request; a resync forgets it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from inferrun import wellknown
from inferrun.control.run_status import acknowledged_status
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.informer import Key
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from operator_shim.admission import PATIENCE_SECONDS, Admission, Admitted, is_started
from operator_shim.decisions import ActionKind, RunRules, decide, has_unacknowledged_edit
from operator_shim.workflows import RunWorkflows

MAX_EDITS: Final = 5
"""Consecutive edits that are sent before other runs get their turn."""

MOVING_SECONDS: Final = 1.0
"""After Temporal has accepted a workflow, how long the runs that wait for their turn are taken to move on."""


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
        rules: Callable[[], RunRules],
        workers: int,
    ) -> None:
        self._runs = runs
        self._workflows = workflows
        self._read = read
        self._reject = reject
        self._clean_up = clean_up
        self._queue: WorkQueue[Key] = WorkQueue(self._reconcile, workers=workers, group=lambda key: key[0])
        self._rules = rules
        self._admission = Admission(limit=lambda: rules().max_active_runs, resume=self._queue.add)
        self._ensured: set[str] = set()
        self._accepted_at = -MOVING_SECONDS
        self._cancelled: set[str] = set()
        self._rechecks: dict[Key, str] = {}

    async def run(self) -> None:
        """Process runs until cancelled."""
        await self._queue.run()

    def add(self, key: Key, item: Object, *, background: bool) -> None:
        """Reconcile a run that has changed, unless there is nothing to do for it."""
        self._admission.observe(key, item)
        if not self._is_settled(item):
            self._queue.add(key, background=background)

    def recheck(self, key: Key, *, cause: str, background: bool) -> None:
        """Have the run's workflow check again what it waits for. `cause` names the object that has changed, and its version; it is
        empty if that is not known, and of two different ones neither is named.
        """
        self._note_recheck(key, cause)
        self._queue.add(key, background=background)

    def ensure_again(self, key: Key, uid: str, *, background: bool) -> None:
        """Check again that a workflow executes the run."""
        self.forget(uid)
        self._queue.add(key, background=background)

    def end(self, key: Key, uid: str) -> None:
        """The run has ended or is gone."""
        self.forget(uid)
        self._rechecks.pop(key, None)
        self._admission.forget(key, uid)

    def has_too_many(self, key: Key) -> bool:
        """Whether the run waits because its namespace has as many active runs as allowed."""
        return self._admission.has_too_many(key)

    def is_under_way(self, key: Key, uid: str) -> bool:
        """Whether Temporal has accepted the workflow of the run, or just now the one of another run before it."""
        is_moving = asyncio.get_running_loop().time() - self._accepted_at < MOVING_SECONDS
        return uid in self._ensured or (is_moving and self._admission.is_next(key))

    def forget(self, uid: str) -> None:
        """Forget what has been done for a run."""
        self._ensured.discard(uid)
        self._cancelled.discard(uid)

    def _is_settled(self, item: Object) -> bool:
        """Whether reconciling the run would do nothing, from the plain object: most changes are of the status alone."""
        metadata, status = item["metadata"], item.get("status") or {}
        if metadata.get("deletionTimestamp") or metadata["uid"] not in self._ensured:
            return False
        is_cancelled = wellknown.ANNOTATION_CANCEL_REQUESTED in (metadata.get("annotations") or {})
        return not is_cancelled and metadata.get("generation", 1) <= status.get("observedGeneration", 1)

    async def _reconcile(self, key: Key) -> None:
        item = self._read(key)
        if item is None:
            self._rechecks.pop(key, None)
            return
        run = parse_run(item)
        action = decide(run, rules=self._rules())
        if action.kind is ActionKind.REJECT:
            self._reject(key)
        elif action.kind in (ActionKind.CLEAN_UP, ActionKind.REMOVE_LEGACY_FINALIZER):
            self._clean_up(run)
        elif action.kind is ActionKind.CANCEL:
            await self._ensure(run)  # only a workflow records an outcome
            await self._cancel(run)
        elif action.kind is ActionKind.START:
            await self._launch(key, item, run)

    async def _launch(self, key: Key, item: Object, run: InferenceRun) -> None:
        uid = run.metadata.uid
        is_new = uid not in self._ensured and not is_started(item)
        # After a restart, which lists all configs, their runs are not ensured yet and are not paced.
        is_unblocked = uid in self._ensured and key in self._rechecks
        if is_new or is_unblocked:
            admitted = self._admission.ask(key, item)
            if admitted is Admitted.TOO_MANY:
                self._reject(key)
            if admitted is not Admitted.NOW:
                return
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._admission.finish_launch, key, uid)
        await self._ensure(run)
        await self._send_edits(run)
        await self._send_recheck(key, run)

    async def _ensure(self, run: InferenceRun) -> None:
        if run.metadata.uid not in self._ensured:
            await self._workflows.ensure(run)
            self._ensured.add(run.metadata.uid)
            self._accepted_at = asyncio.get_running_loop().time()

    async def _cancel(self, run: InferenceRun) -> None:
        if run.metadata.uid not in self._cancelled:
            await self._workflows.cancel(run.ref)
            self._cancelled.add(run.metadata.uid)

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
        for _ in range(MAX_EDITS):
            sent = run.metadata.generation
            await self._workflows.spec_changed(run)
            written = await self._runs.update_status(run.ref, partial(_acknowledge, sent=sent), read=run)
            if written.run is None or written.run.metadata.generation == sent:
                return
            run = written.run

    async def _send_recheck(self, key: Key, run: InferenceRun) -> None:
        cause = self._rechecks.pop(key, None)
        if cause is None:
            return
        is_sent = False
        try:
            await self._workflows.recheck(run, cause=cause)
            is_sent = True
        finally:
            if not is_sent:
                self._note_recheck(key, cause)

    def _note_recheck(self, key: Key, cause: str) -> None:
        self._rechecks[key] = cause if self._rechecks.get(key, cause) == cause else ""


def _acknowledge(current: InferenceRun, *, sent: int) -> InferenceRunStatus | None:
    """The status with the generation that was sent; None if the spec has been edited again."""
    return acknowledged_status(current, generation=sent) if current.metadata.generation == sent else None

"""Writes the first status of a run: `Accepted`, or why its spec is rejected.

A queue of its own, which never calls Temporal: however slow Temporal is, a new run has a status within about a second.
Usually the run's workflow is faster and writes the status of the Job itself, which makes `Accepted` superfluous. While
Temporal accepts workflows, `Accepted` therefore waits a little longer, so that a burst is not slowed down by it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from control.informer import Key
from control.log_subjects import fields_of_object, log_about
from control.metrics import Metrics
from control.work_queue import WorkQueue
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_status import status_after
from operator_shim.decisions import Action, ActionKind, decide, may_write_status

DELAY: Final = 0.3
"""Seconds after which `Accepted` is written to a run that still has no phase; a Job usually follows within 0.1 s."""

LAUNCH_DELAY: Final = 5.0
"""Further seconds that the launch of a run gets if Temporal has accepted its workflow, or accepts those before it."""

ACCEPTED: Final = Action(ActionKind.START, Reason.ACCEPTED, "accepted; the workflow is being started")
ACCEPTED_SCHEDULE: Final = Action(ActionKind.SCHEDULE, Reason.ACCEPTED, "accepted; the schedule is being created")


class Acceptance:
    """One lane of the shim; `read` returns a run as last seen by the watch, `is_under_way` whether the launch of the run with
    that UID can be expected soon.
    """

    def __init__(
        self,
        runs: RunStore,
        *,
        read: Callable[[Key], Object | None],
        has_too_many: Callable[[Key], bool],
        defaults: Callable[[], Defaults],
        is_under_way: Callable[[str], bool],
        workers: int,
        metrics: Metrics,
    ) -> None:
        self._runs = runs
        self._has_too_many = has_too_many
        self._defaults = defaults
        self._read = read
        self._is_under_way = is_under_way
        self._postponed: set[Key] = set()
        self._queue: WorkQueue[Key] = WorkQueue(
            self._accept, workers=workers, group=lambda key: key[0], metrics=metrics, name="acceptance"
        )

    async def run(self) -> None:
        await self._queue.run()

    def add(self, key: Key) -> None:
        """Accept the run if it still has no phase in a moment."""
        self._queue.add_within(key, DELAY)

    def reject(self, key: Key) -> None:
        """Report an invalid spec now."""
        self._queue.add(key)

    async def _accept(self, key: Key) -> None:
        item = self._read(key)
        if item is None:
            self._postponed.discard(key)
            return
        log_about(fields_of_object(item))
        run = parse_run(item)
        action = first_status(run, defaults=self._defaults(), has_too_many=self._has_too_many(key))
        if action is ACCEPTED and key not in self._postponed and self._is_under_way(run.metadata.uid):
            self._postponed.add(key)
            self._queue.add_later(key, LAUNCH_DELAY)
            return
        self._postponed.discard(key)
        if action is not None:
            await self._runs.update_status(
                run.ref, lambda current: _pending(current, action, now=self._runs.now()), read=run
            )


def first_status(run: InferenceRun, *, defaults: Defaults, has_too_many: bool) -> Action | None:
    """The action that the run's first status reports; None if the shim must not write one. Pure.

    With `has_too_many`, the run waits for another one of its namespace to end.
    """
    if not may_write_status(run) and not (has_too_many and run.status.reason == Reason.ACCEPTED):
        return None
    action = decide(run, defaults=defaults)
    if action.kind is ActionKind.START and has_too_many:
        limit = f"{defaults.max_active_runs_per_namespace} active runs, the maximum (setting maxActiveRunsPerNamespace)"
        message = f"the namespace has {limit}; this run starts automatically when one of them has ended"
        return Action(ActionKind.START, Reason.TOO_MANY_ACTIVE_RUNS, message)
    if action.kind is ActionKind.REJECT:
        return None if run.spec.is_schedule else action
    accepted = {ActionKind.START: ACCEPTED, ActionKind.SCHEDULE: ACCEPTED_SCHEDULE}.get(action.kind)
    return accepted if run.status.phase is None else None


def _pending(current: InferenceRun, action: Action, *, now: datetime) -> InferenceRunStatus | None:
    """`Accepted` acknowledges no generation, because the run's workflow has not read the spec yet; a rejection does."""
    waits = action.reason is Reason.TOO_MANY_ACTIVE_RUNS and current.status.reason == Reason.ACCEPTED
    is_known = (current.status.reason, current.status.message) == (action.reason, action.message)
    if is_known or not (may_write_status(current) or waits):
        return None
    is_rejected = action.kind is ActionKind.REJECT
    return status_after(
        current,
        phase=Phase.PENDING,
        reason=action.reason,
        message=action.message,
        now=now,
        read_generation=current.metadata.generation if is_rejected else None,
    )

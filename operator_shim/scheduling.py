"""Reconciles scheduled runs with their Temporal schedules, in a queue of its own."""

from collections.abc import Callable

from activities.objects.events import EventRecorder
from control.informer import Key
from control.namespaced_informers import NamespacedInformers
from control.work_queue import WorkQueue
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from operator_shim.decisions import ActionKind, RunRules, cancellation_notice, decide
from operator_shim.run_terms import created_by
from operator_shim.schedules import Schedules


class Scheduling:
    """One lane of the shim; `clean_up` passes on a run that is being deleted."""

    def __init__(
        self,
        schedules: Schedules,
        *,
        watch: NamespacedInformers,
        clean_up: Callable[[InferenceRun], None],
        events: EventRecorder,
        rules: Callable[[], RunRules],
        workers: int,
    ) -> None:
        self._schedules = schedules
        self._events = events
        self._rules = rules
        self._watch = watch
        self._clean_up = clean_up
        self._queue: WorkQueue[Key] = WorkQueue(self._reconcile, workers=workers, group=lambda key: key[0])

    async def run(self) -> None:
        """Process scheduled runs until cancelled."""
        await self._queue.run()

    def add(self, key: Key, *, background: bool = False) -> None:
        """Reconcile a scheduled run that has changed, or whose runs have."""
        self._queue.add(key, background=background)

    async def _reconcile(self, key: Key) -> None:
        item = self._watch.get(*key)
        if item is None or item["spec"].get("schedule") is None:
            return
        run = parse_run(item)
        action = decide(run, rules=self._rules())
        if action.kind in (ActionKind.REJECT, ActionKind.SCHEDULE) and (notice := cancellation_notice(run)):
            await self._events.record(run.ref, reason=Reason.CANCELLATION_IGNORED, message=notice, is_warning=True)
        if action.kind is ActionKind.REJECT:
            children = self._children(run)
            await self._schedules.reject(run, children=children, reason=action.reason, message=action.message)
        elif action.kind is ActionKind.CLEAN_UP:
            self._clean_up(run)
        elif action.kind is ActionKind.SCHEDULE:
            seconds = await self._schedules.reconcile(run, children=self._children(run))
            self._queue.add_later(key, seconds)

    def _children(self, run: InferenceRun) -> list[InferenceRun]:
        """The watched runs that a schedule created."""
        return [parse_run(item) for _, item in self._watch.find(created_by(run.metadata.namespace, run.metadata.uid))]

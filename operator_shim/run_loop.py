"""The one loop over runs: plans for each run that has changed (`operator_shim.run_plan`), and
executes what is due, in lanes.

Its only state can be read again: if a shim is killed between seeing a run and starting its
workflow, the next one sees the same run. It writes a run's status only before a workflow exists,
and afterwards only that the workflow has received an edit.

A worker executes the steps of all namespaces, so what is handed to it is what others wait behind.
Runs are therefore started, or signalled to look again, a few of each namespace at a time: the next
one follows when the watch shows that one has come further.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pydantic import ValidationError

from control.informer import Key
from control.log_subjects import fields_of_object, fields_of_run, log_about
from control.metrics import Metrics
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_status import acknowledged_status
from operator_shim.run_plan import (
    NEVER,
    NEW,
    Action,
    Command,
    Lane,
    Memory,
    News,
    Plan,
    View,
    accepted_status,
    has_come_further,
    is_started,
    news_from,
    plan_run,
    told,
)
from operator_shim.run_terms import (
    has_ended,
    is_schedule,
)
from operator_shim.run_watch import RunWatch
from operator_shim.schedules import Schedules
from operator_shim.workflows import RunWorkflows

MAX_EDITS: Final = 5
"""Consecutive edits that are sent before other runs get their turn."""

MOVING_SECONDS: Final = 1.0
"""After Temporal has accepted a workflow, how long the runs that wait for their turn are taken to
move on.
"""

STARTS: Final = 40

STARTS_PER_NAMESPACE: Final = 4
"""Runs of a namespace that are launched at a time. They share the worker with what others wait for,
which therefore takes up to five times as long. More would hardly launch them faster, because
launches are bound by CPU; two take twice as long (measured).
"""

PATIENCE_SECONDS: Final = 2.0
"""After this time a run counts as launched, whatever is known of it: no worker may be running, or
nothing has changed.
"""

DELETIONS: Final = 5

REST_SECONDS: Final = 0.5
"""After the end of a deleted run: with all workers, at most ten per second, which takes a third of
a CPU, mostly elsewhere.
"""

MARK_SECONDS: Final = 1.0
"""The time until a run that has begun to run is marked: an edit is acknowledged before, and not
sent again because of the mark.
"""

SCHEDULES: Final = 4

Task = tuple[Command, RunRef]


class RunLoop:
    """Run it as one task, beside the watch of runs."""

    def __init__(
        self,
        api: KubeClient,
        watch: RunWatch,
        *,
        workflows: RunWorkflows,
        schedules: Schedules,
        defaults: Callable[[], Defaults],
        workers: int,
        metrics: Metrics,
    ) -> None:
        """`workers` write first statuses, and as many execute what else there is to do for runs
        under way.
        """
        self._api = api
        self._runs = RunStore(api)
        self._watch = watch
        self._workflows = workflows
        self._schedules = schedules
        self._defaults = defaults
        self._memories: dict[str, Memory] = {}
        """The memories of runs that have not ended, by UID."""
        self._active: Counter[str] = Counter()
        """The runs of each namespace that take room, as far as they were seen."""
        self._without_room: dict[str, dict[RunRef, None]] = {}
        """The runs of each namespace that wait until fewer are active, in the order in which they
        began to.
        """
        self._left: dict[RunRef, InferenceRun] = {}
        """Runs that are gone, until what executes them has been ended."""
        self._launches: dict[str, asyncio.Event] = {}
        """Set at each change of a run that is being launched."""
        self._accepted_at = -MOVING_SECONDS
        self._plans: WorkQueue[RunRef] = WorkQueue(
            self._plan, workers=1, group=lambda run: run.namespace, metrics=metrics, name="runs"
        )

        counts = {
            Lane.STARTS: STARTS,
            Lane.DELETIONS: DELETIONS,
            Lane.MARKS: 1,
            Lane.SCHEDULES: SCHEDULES,
        }
        self._lanes: dict[Lane, WorkQueue[Task]] = {
            lane: WorkQueue(
                partial(self._execute, lane),
                workers=counts.get(lane, workers),
                group=lambda task: task[1].namespace,
                per_group=STARTS_PER_NAMESPACE if lane is Lane.STARTS else None,
                metrics=metrics,
                name=lane,
            )
            for lane in Lane
        }
        watch.subscribe(self._on_event)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._plans.run())
            for lane in self._lanes.values():
                tasks.create_task(lane.run())

    def wake(self, run: RunRef, news: News = News.CHANGED, *, background: bool = False) -> None:
        """Plan for the run with this news; what is due in the background waits for what is due for
        others.

        Raises ValidationError if the run cannot be parsed.
        """
        self._remember(run, told(self._memories.get(run.uid, NEW), news, is_behind=background))
        self._queue(run, self._look(run))

    def _on_event(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None:
            run = RunRef.of(before)
            if run.uid in self._launches:
                self._launches[run.uid].set()
            if after is None and (is_schedule(before) or not has_ended(before)):
                with suppress(ValidationError):
                    self._left[run] = parse_run(before)
        for run, news, is_behind in news_from(
            before,
            after,
            get=self._watch.get,
            find=self._watch.find,
            has_listed=self._watch.has_listed(key[0]),
        ):
            with surviving("the look at a run", about=run):
                self.wake(run, news, background=is_behind)

    async def _plan(self, run: RunRef) -> None:
        await asyncio.sleep(0)  # thousands of runs may be queued: other tasks get their turn
        self._queue(run, self._look(run))

    def _look(self, run: RunRef) -> Plan:
        """Plan for the run."""
        now = asyncio.get_running_loop().time()
        view = View(
            self._watch.seen(run),
            now=now,
            defaults=self._defaults(),
            room=self._room(run.namespace),
            is_launching=run.uid in self._launches,
            is_moving=now - self._accepted_at < MOVING_SECONDS,
            left=self._left.get(run),
        )
        planned = plan_run(view, self._memories.get(run.uid, NEW))
        self._remember(run, planned.memory)
        due = (planned.memory or NEW).due
        if now < due < NEVER:
            self._plans.add_later(run, due - now)
        return planned

    def _queue(self, run: RunRef, planned: Plan) -> None:
        memory = planned.memory or NEW
        for command, lane in planned.commands:
            if command is Command.MARK:
                self._lanes[lane].add_within((command, run), MARK_SECONDS, background=memory is NEW)
            else:
                self._lanes[lane].add((command, run), background=memory.is_behind)

    def _remember(self, run: RunRef, memory: Memory | None) -> None:
        """Keep the memory; if the run takes none of the room in its namespace any more, those that
        waited longest are looked at.
        """
        before, after, namespace = self._memories.get(run.uid, NEW), memory or NEW, run.namespace
        if memory is None:
            self._memories.pop(run.uid, None)
        else:
            self._memories[run.uid] = memory
        if (before.takes_room, before.waits_for_room) == (after.takes_room, after.waits_for_room):
            return
        self._active[namespace] += after.takes_room - before.takes_room
        waiting = self._without_room.setdefault(namespace, {})
        if after.waits_for_room:
            waiting.setdefault(run)
        else:
            waiting.pop(run, None)
        if not after.takes_room and (before.takes_room or not after.waits_for_room):
            for first in list(waiting)[: self._room(namespace)]:
                self._plans.add(first)
        if not waiting:
            del self._without_room[namespace]
        if not self._active[namespace]:
            del self._active[namespace]

    def _change(self, run: RunRef, **changes: Any) -> None:  # Any: fields of a memory
        """What a command has done is remembered, unless the run has ended meanwhile."""
        if run.uid in self._memories:
            self._remember(run, replace(self._memories[run.uid], **changes))

    def _room(self, namespace: str) -> int:
        limit = self._defaults().max_active_runs_per_namespace
        return max(0, limit - self._active[namespace]) if limit else STARTS

    async def _execute(self, lane: Lane, task: Task) -> None:
        """Execute a command if it is still due, or else queue what is. One that fails is repeated
        by its lane, after a pause.
        """
        command, ref = task
        planned = self._look(ref)
        if (command, lane) not in planned.commands:
            self._queue(ref, planned)
            return
        run, item = planned.run, self._watch.seen(ref)
        if command is Command.START and run is None:
            run = parse_run(item or {})
        log_about(fields_of_object(item) if item is not None else fields_of_run(ref))
        if command is Command.MARK:
            await self._patch(ref, annotations={wellknown.ANNOTATION_STARTED_AS: ref.uid})
        elif lane is Lane.DELETIONS:
            await self._end(ref, command, run)
        elif command is Command.CANCEL:
            await self._workflows.cancel(ref)
        elif run is None:
            return
        elif lane is Lane.ACCEPTANCE:
            await self._accept(run, planned.action)
        elif command is Command.EDIT:
            await self._send_edits(run)
        elif command is Command.KEEP:
            await self._keep(run, planned.action)
        else:
            async with self._launching(ref) if lane is Lane.STARTS else nullcontext():
                if command is Command.START:
                    await self._workflows.ensure(run, is_new=not is_started(item or {}))
                    self._accepted_at = asyncio.get_running_loop().time()
                    self._change(ref, is_ensured=True)
                    self._queue(ref, self._look(ref))
                else:
                    with self._told(ref):
                        await self._workflows.recheck(ref)

    @asynccontextmanager
    async def _launching(self, run: RunRef) -> AsyncIterator[None]:
        """Return when the run has come further."""
        since = self._watch.seen(run) or {}
        changed = self._launches.setdefault(run.uid, asyncio.Event())
        self._change(run, takes_room=True, waits_for_room=False)
        try:
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while not has_come_further(self._watch.seen(run), since=since):
                        changed.clear()
                        await changed.wait()
        finally:
            self._launches.pop(run.uid, None)
            self._look(run)

    @contextmanager
    def _told(self, run: RunRef) -> Iterator[None]:
        """Whatever changes while the run looks again has it look once more."""
        self._change(run, looks_again=False)
        try:
            yield
        except BaseException:
            self._change(run, looks_again=True)
            raise

    async def _keep(self, run: InferenceRun, action: Action) -> None:
        with self._told(run.ref):
            self._change(run.ref, is_ensured=True)
            wait = await self._schedules.keep(run, action)
        if self._watch.seen(run.ref) is None:
            # its deletion may have come before what this has created
            await self._schedules.delete(run.ref)
        self._change(run.ref, due=asyncio.get_running_loop().time() + wait)
        self._queue(run.ref, self._look(run.ref))

    async def _accept(self, run: InferenceRun, action: Action) -> None:
        await self._runs.update_status(
            run.ref,
            lambda current: accepted_status(current, action, now=self._runs.now()),
            read=run,
        )

    async def _send_edits(self, run: InferenceRun) -> None:
        """Send the run's workflow the spec until it has received the latest generation, and record
        that it has.

        Two writers acknowledge a generation in `status.observedGeneration`: LaunchJob, which has
        read the spec, and this method, after Temporal has accepted the signal. A signal is lost in
        neither order:

        - The edit comes before LaunchJob reads the spec: the launch acknowledges it, and no signal
          is needed.
        - The edit comes after that: LaunchJob acknowledges the earlier generation that it has read,
          even if it writes the status after the edit, so the edit is still unacknowledged and is
          signalled. The workflow applies a signal that arrives during a launch after the launch.
        - Another edit comes while a signal is being sent: the signal may arrive after a launch that
          has read, and acknowledged, the newer spec, and would then replace it by the older one. If
          the generation has changed by the time of the acknowledgement, the newest spec is
          therefore sent once more.

        A workflow that is started after the edit reads the spec itself.
        """

        def acknowledge(current: InferenceRun) -> InferenceRunStatus | None:
            return (
                acknowledged_status(current, generation=sent)
                if current.metadata.generation == sent
                else None
            )

        for _ in range(MAX_EDITS):
            sent = run.metadata.generation
            await self._workflows.spec_changed(run)
            written = await self._runs.update_status(run.ref, acknowledge, read=run)
            if written.run is None or written.run.metadata.generation == sent:
                break
            run = written.run
        self._change(run.ref, sent=sent)

    async def _end(self, ref: RunRef, command: Command, run: InferenceRun | None) -> None:
        """End what executes a run that is gone, is being deleted or has ended. After a
        cancellation, the worker of the lane rests: a few are dealt with at once, and a crowd leaves
        Temporal and the worker process to the runs of others.
        """
        is_executed = command is Command.END and (run is None or not run.status.is_terminal)
        if command is Command.DELETE_SCHEDULE:
            await self._schedules.delete(ref)
        elif command is Command.CLEAN_UP:
            await self._workflows.clean_up(ref)
        elif is_executed:
            await self._workflows.cancel(ref)
        if run is None:
            self._change(ref, left_over=None)
            self._look(ref)
        else:
            if is_executed:
                await self._workflows.notify_submitter_of_deletion(run)
            finalizers = run.metadata.finalizers
            if run.metadata.is_being_deleted and wellknown.LEGACY_FINALIZER in finalizers:
                # The Krateo controller's, which nothing else would remove
                others = [name for name in finalizers if name != wellknown.LEGACY_FINALIZER]
                await self._patch(
                    ref, resourceVersion=run.metadata.resource_version, finalizers=others
                )
            if self._left.get(ref) is run:
                del self._left[ref]
        if is_executed:
            await asyncio.sleep(REST_SECONDS)

    async def _patch(self, run: RunRef, **metadata: object) -> None:
        # another run has its name, or the watch delivers a newer version
        with suppress(Conflict, NotFound):
            await self._api.patch(
                RUNS, run.namespace, run.name, {"metadata": {"uid": run.uid, **metadata}}
            )

"""Plans what to do about one run, from its state in the watch and the memory of earlier plans.
Pure.

Level-triggered: what has happened causes a plan and does not influence it. A command only says that
something is due: when its turn has come, the plan is made again, and the command is executed if it
is still part of it. All commands are idempotent, so that a second shim does no harm. A command that
fails stays due; one that the memory does not record is due again at the next change of the run.

Times are those of the event loop's clock, in seconds. The memory of a run under way is a few flags,
which the runs of the same state share: there may be ten thousand. A run that has ended has none.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from inferrun import wellknown
from inferrun.fields.problems import describe
from inferrun.kube.objects import Object, annotations_of, status_of
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.resources.validation import run_problems
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_status import REJECTIONS, status_after
from inferrun.text import shell_command
from operator_shim.run_terms import (
    Awaited,
    awaited_run,
    has_ended,
    is_schedule,
    may_have_missed,
    sees_change,
    starters_of,
)

NEVER: Final = math.inf

ACCEPT_SECONDS: Final = 0.3
"""The time after which `Accepted` is written to a run that still has no phase; a Job usually
follows within 0.1 s.
"""

LAUNCH_SECONDS: Final = 5.0
"""Further time that the launch of a run gets if Temporal has accepted its workflow, or accepts
those before it. Its status makes `Accepted` superfluous, and a burst is not slowed down by it.
"""

CORRECTABLE: Final = (*REJECTIONS, Reason.TOO_MANY_ACTIVE_RUNS)
"""The reasons of a run that has no workflow: the shim writes the next status, too."""

OWN_REASONS: Final = (*CORRECTABLE, Reason.ACCEPTED)
"""The reasons of a run of whose workflow nothing has been heard."""

_REASONS: Final = {
    "spec.schedule": Reason.INVALID_SCHEDULE,
    "spec.timeZone": Reason.INVALID_TIME_ZONE,
}

_STARTED: Final = (Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED)
"""Earlier than that, a copy may be executed: nothing has been predicted. No write of a launch meets
the mark.
"""

NO_LIMITS: Final = Defaults()


class Lane(StrEnum):
    """Where a command waits for its turn: one that is slow delays none in another lane."""

    ACCEPTANCE = "acceptance"
    """It never calls Temporal: however slow that is, a new run has a status within about a second.
    """

    STARTS = "starts"
    """A few runs of a namespace at a time, each until its launch has changed it."""

    EXECUTIONS = "executions"
    DELETIONS = "deletions"
    """A crowd of them is dealt with at a steady rate: no user waits for the end of a workflow."""

    MARKS = "marks"
    SCHEDULES = "schedules"


class Command(StrEnum):
    """What to do."""

    ACCEPT = "accept"
    """Write that the run is accepted, or waits for room."""

    REJECT = "reject"
    START = "start"
    """Make sure that a workflow executes the run."""

    EDIT = "edit"
    """Send its workflow the spec."""

    LOOK_AGAIN = "look again"
    """Have its workflow check what it waits for."""

    CANCEL = "cancel"
    END = "end"
    """End what executes a run that is gone or is being deleted."""

    MARK = "mark"
    """Note on a run that has started its UID, so that a copy of it without a status, as from a
    backup, is not executed.
    """

    KEEP = "keep the schedule"
    DELETE_SCHEDULE = "delete the schedule"
    CLEAN_UP = "clean up"
    """Start the workflow that deletes a finished run."""


Due = tuple[Command, Lane]


class News(StrEnum):
    """What the loop is told of a run."""

    CHANGED = "changed"
    AWAITED_CHANGED = "what it waits for has changed"
    """Or, for a schedule, one of its runs."""

    LOST = "lost"
    """It may be that no workflow executes the run any more, or that its schedule was changed."""

    WORKFLOW_LEFT = "its workflow is left over"
    SCHEDULE_LEFT = "its schedule is left over"
    OVERDUE = "its deletion is overdue"


LEFT_OVERS: Final = {
    News.WORKFLOW_LEFT: Command.END,
    News.SCHEDULE_LEFT: Command.DELETE_SCHEDULE,
    News.OVERDUE: Command.CLEAN_UP,
}
"""What is due for a run that is gone or has ended."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the state of a run does not say."""

    is_ensured: bool = False
    """Temporal has accepted a workflow that executes it, or has the schedule."""

    looks_again: bool = False
    """Something that it waits for has changed since its workflow, or its schedule, looked last."""

    is_behind: bool = False
    """Its commands wait for those of other runs: it was only listed, or is only looked at in case
    that something was missed.
    """

    takes_room: bool = False
    """It counts as active in its namespace."""

    waits_for_room: bool = False
    is_postponed: bool = False
    """Its first status has been given further time."""

    sent: int = 0
    """The generation of the spec that its workflow was sent, until the watch shows that this is
    acknowledged.
    """

    left_over: News | None = None
    due: float = NEVER
    """When to plan again although nothing has changed."""


NEW: Final = Memory()
UNDER_WAY: Final = {
    takes_room: Memory(is_ensured=True, takes_room=takes_room) for takes_room in (False, True)
}
"""The memories of runs for which nothing is due, which they share."""


def news_from(
    before: Object | None,
    after: Object | None,
    *,
    get: Callable[[str, str], Object | None],
    find: Callable[[Hashable], Sequence[tuple[object, Object]]],
    has_listed: bool,
) -> Iterator[tuple[RunRef, News, bool]]:
    """Which runs are told what because one has changed, and whether that is behind others.

    A run that was accepted earlier and is merely listed at startup waits for those that are new.
    What it waits for may have changed unseen; later, each change is told when it is seen.
    """
    item = after or before
    if item is None:
        return
    changed = RunRef.of(item)
    is_done = after is None or has_ended(after)
    is_listed = not (after is None or has_listed or not status_of(after).get("phase"))
    has_missed = may_have_missed(item) if is_listed else has_listed and sees_change(item, get)
    if before is not None or not is_over(item):
        news = News.AWAITED_CHANGED if has_missed or is_schedule(item) else News.CHANGED
        yield changed, news, is_listed
    others = [
        run
        for _, run in find(Awaited(wellknown.RUN_KIND, changed.namespace, changed.name))
        if sees_change(run, get)
    ]
    if before is None or after is None or has_ended(before) != is_done:
        starters = (
            get(changed.namespace, starter) for starter in starters_of(item, is_done=is_done)
        )
        others += [
            starter for starter in starters if starter is not None and not has_ended(starter)
        ]
    for run in others:
        yield RunRef.of(run), News.AWAITED_CHANGED, False


def told(memory: Memory, news: News, *, is_behind: bool) -> Memory:
    """The memory after news. A run that something is due for does not fall behind."""
    return replace(
        memory,
        is_ensured=memory.is_ensured and news is not News.LOST,
        looks_again=memory.looks_again or news is News.AWAITED_CHANGED,
        sent=0 if news is News.LOST else memory.sent,
        left_over=news if news in LEFT_OVERS else memory.left_over,
        is_behind=is_behind and (memory.is_behind or not memory.looks_again),
    )


@dataclass(frozen=True)
class Action:
    """What the state of a run asks for, if anything; `reason` and `message` are those of the first
    status.
    """

    kind: Command | None = None
    reason: Reason = Reason.ACCEPTED
    message: str = ""


ACCEPTED: Final = Action(Command.START, message="accepted; the workflow is being started")
ACCEPTED_SCHEDULE: Final = Action(Command.KEEP, message="accepted; the schedule is being created")


@dataclass(frozen=True, slots=True)
class View:
    """The run as last seen, None if it is gone, and then what was `left` of it. `room` is the
    number of further runs that may be active in its namespace; `is_launching` says that it has its
    turn, `is_moving` that Temporal has just now accepted some workflow.
    """

    run: Object | None
    now: float
    defaults: Defaults = NO_LIMITS
    room: int = 1
    is_launching: bool = False
    is_moving: bool = False
    left: InferenceRun | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The memory from now on, None if there is nothing to remember, and what is due. `run` is the
    run if it had to be parsed; `action` what its state asks for, as the first status says it.
    """

    memory: Memory | None
    commands: tuple[Due, ...] = ()
    run: InferenceRun | None = None
    action: Action = Action()


def plan_run(view: View, memory: Memory) -> Plan:
    """Compare what the run asks for with what has been done for it, and plan the difference.

    Raises ValidationError if the run cannot be parsed.
    """
    item = view.run
    if memory.left_over and (item is None or has_ended(item)):
        return Plan(memory, ((LEFT_OVERS[memory.left_over], Lane.DELETIONS),))
    if item is None:
        return Plan(None, _ending(view.left), view.left)
    marks = ((Command.MARK, Lane.MARKS),) if lacks_mark(item) else ()
    if has_ended(item) and not item["metadata"].get("deletionTimestamp"):
        return Plan(None, marks)
    return _plan_present(item, marks, view, memory)


def _plan_present(item: Object, marks: tuple[Due, ...], view: View, memory: Memory) -> Plan:
    """Most changes are of the status alone, and most runs that are listed are under way: these are
    not parsed.
    """
    takes_room, asks = _takes_room(item, memory, view), not _asks_nothing(item)
    if memory.is_ensured and not (asks or memory.looks_again):
        return Plan(UNDER_WAY[takes_room], marks)
    memory = replace(memory, takes_room=takes_room, left_over=None)
    if not (asks or memory.is_ensured) and item["status"].get("contract") and is_started(item):
        return Plan(memory, (*marks, (Command.START, Lane.EXECUTIONS)))
    run = parse_run(item)
    if run.metadata.is_being_deleted:
        memory = replace(memory, waits_for_room=False, due=NEVER)
        return Plan(None if has_ended(item) else memory, _ending(run), run)
    action, commands = decide(run, defaults=view.defaults), tuple[Due, ...]()
    if action.kind is Command.START:
        memory, commands = _plan_workflow(run, item, memory, room=view.room)
    else:  # it was paused, for instance, since it began to wait
        memory = replace(memory, waits_for_room=False)
    if run.spec.is_schedule and action.kind is not None:
        is_due = run.status.phase is not None and view.now >= memory.due
        commands = (
            ((Command.KEEP, Lane.SCHEDULES),)
            if is_due or memory.looks_again or not memory.is_ensured
            else ()
        )
    elif action.kind is Command.CANCEL:  # only a workflow records an outcome
        commands = ((Command.CANCEL if memory.is_ensured else Command.START, Lane.EXECUTIONS),)
    status = _first_status(run, action, memory, view)
    memory, accepts = _with_acceptance(status, run, memory, view)
    return Plan(memory, (*marks, *commands, *accepts), run, status or action)


def _ending(run: InferenceRun | None) -> tuple[Due, ...]:
    if run is None:
        return ()
    return ((Command.DELETE_SCHEDULE if run.spec.is_schedule else Command.END, Lane.DELETIONS),)


def _asks_nothing(item: Object) -> bool:
    """Whether a run that is accepted asks for no more than a workflow that executes it."""
    metadata, status = item["metadata"], status_of(item)
    annotations = annotations_of(item)
    is_edited = metadata.get("generation", 1) > max(1, status.get("observedGeneration", 1))
    asks = (
        is_edited
        or metadata.get("deletionTimestamp")
        or is_schedule(item)
        or wellknown.ANNOTATION_CANCEL_REQUESTED in annotations
        or wellknown.ANNOTATION_PAUSED in annotations
    )
    return bool(status.get("phase") and status.get("reason") not in REJECTIONS and not asks)


def _takes_room(item: Object, memory: Memory, view: View) -> bool:
    """A run that waits for another run takes no room, which that run may need; a back-fill leaves
    it to its runs.
    """
    if awaited_run(item) is not None and not view.is_launching:
        return False
    counts = item["spec"].get("backfill") is None and not is_schedule(item)
    return memory.takes_room or (counts and is_started(item))


def _plan_workflow(
    run: InferenceRun, item: Object, memory: Memory, *, room: int
) -> tuple[Memory, tuple[Due, ...]]:
    """What is due for the workflow of a run. In the lane of starts, namespaces take turns, and each
    of their runs needs room; after a restart, runs whose workflows exist do not take turns.
    """
    has_workflow, is_backfill = is_started(item), run.spec.backfill is not None
    takes_turns = not is_backfill and not (memory.is_behind if memory.is_ensured else has_workflow)
    lane = Lane.STARTS if takes_turns else Lane.EXECUTIONS
    needs_room = (
        takes_turns
        and not memory.takes_room
        and (not has_workflow or awaited_run(item) is not None)
    )
    is_edited = (
        memory.is_ensured and run.metadata.generation > memory.sent and has_unacknowledged_edit(run)
    )
    edits = ((Command.EDIT, Lane.EXECUTIONS),) if is_edited else ()
    if memory.is_ensured and not memory.looks_again:
        return replace(memory, waits_for_room=False), edits
    has_room = room > 0 or not needs_room
    memory = replace(memory, waits_for_room=not has_room or (needs_room and memory.waits_for_room))
    command = Command.LOOK_AGAIN if memory.is_ensured else Command.START
    return memory, (*edits, (command, lane)) if has_room else edits


def _with_acceptance(
    status: Action | None, run: InferenceRun, memory: Memory, view: View
) -> tuple[Memory, tuple[Due, ...]]:
    """The memory, and whether the first status is due. What a run that is accepted shows soon is
    waited for.
    """
    if status is None or status.reason is not Reason.ACCEPTED:
        memory = memory if run.spec.is_schedule else replace(memory, is_postponed=False, due=NEVER)
    elif memory.due == NEVER:
        return replace(memory, due=view.now + ACCEPT_SECONDS), ()
    elif view.now < memory.due:
        return memory, ()
    elif not (run.spec.is_schedule or memory.is_postponed) and (
        memory.is_ensured or view.is_moving
    ):
        return replace(memory, is_postponed=True, due=view.now + LAUNCH_SECONDS), ()
    if status is None:
        return memory, ()
    return memory, (
        (Command.REJECT if status.kind is Command.REJECT else Command.ACCEPT, Lane.ACCEPTANCE),
    )


def decide(run: InferenceRun, *, defaults: Defaults = NO_LIMITS) -> Action:
    """What the state of an existing run asks for: that it is rejected, started, cancelled or, as a
    schedule, kept, or nothing.
    """
    # A run that the Krateo controller has executed is never executed again.
    is_krateos = run.status.phase is None and (
        run.status.conditions or run.status.contract or run.status.job_status
    )
    if run.is_paused or run.status.is_terminal or is_krateos:
        return Action()
    if (rejection := _rejection(run, defaults)) is not None:
        return rejection
    if run.spec.is_schedule:
        return ACCEPTED_SCHEDULE
    if (
        run.metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) == "true"
        and run.status.phase is not None
    ):
        return Action(Command.CANCEL)
    return ACCEPTED


def _rejection(run: InferenceRun, defaults: Defaults) -> Action | None:
    """Why the run is not accepted: it is a copy of one that was executed, or its spec is invalid;
    None if it is.
    """
    metadata = run.metadata
    uid = metadata.annotations.get(wellknown.ANNOTATION_STARTED_AS, metadata.uid)
    if uid != metadata.uid and not run.spec.is_schedule and may_write_status(run):
        mark = f"{wellknown.ANNOTATION_STARTED_AS}-"
        execute = shell_command(
            "kubectl", "-n", metadata.namespace, "annotate", "inferencerun", metadata.name, mark
        )
        text = (
            f"a run with the UID {uid} was executed, and this one is a copy of it without its status, from a backup or an "
            f"exported manifest: it is not executed again. To execute it: {execute}"
        )
        return Action(Command.REJECT, Reason.EXECUTED_BEFORE, text)
    seconds = defaults.min_schedule_interval_seconds
    problems = (
        run_problems(run, min_schedule_interval_seconds=seconds) if not run.status.contract else ()
    )
    if not problems:
        return None
    return Action(
        Command.REJECT, _REASONS.get(problems[0].field, Reason.INVALID_SPEC), describe(problems)
    )


def _first_status(run: InferenceRun, action: Action, memory: Memory, view: View) -> Action | None:
    """What the run's first status reports; None if the shim must not write one, or it says this
    already.

    The rejection of a schedule is written with its times.
    """
    if memory.waits_for_room:
        most = f"{view.defaults.max_active_runs_per_namespace} active runs, the maximum (setting maxActiveRunsPerNamespace)"
        message = (
            f"the namespace has {most}; this run starts automatically when one of them has ended"
        )
        action = Action(Command.START, Reason.TOO_MANY_ACTIVE_RUNS, message)
    elif action.kind is Command.REJECT:
        if run.spec.is_schedule:
            return None
    elif run.status.phase is not None or not action.message:
        return None
    return action if _may_say(run, action) else None


def _may_say(run: InferenceRun, action: Action) -> bool:
    waits = action.reason is Reason.TOO_MANY_ACTIVE_RUNS and run.status.reason == Reason.ACCEPTED
    is_said = (run.status.reason, run.status.message) == (action.reason, action.message)
    return not is_said and (waits or may_write_status(run))


def accepted_status(
    run: InferenceRun, action: Action, *, now: datetime
) -> InferenceRunStatus | None:
    """The first status of a run; None if it has another one by now. `Accepted` acknowledges no
    generation, because the run's workflow has not read the spec yet; a rejection does.
    """
    if not _may_say(run, action):
        return None
    return status_after(
        run,
        phase=Phase.PENDING,
        reason=action.reason,
        message=action.message,
        now=now,
        read_generation=run.metadata.generation if action.kind is Command.REJECT else None,
    )


def may_write_status(run: InferenceRun) -> bool:
    """Whether the shim may write the run's status: only if it has none yet, or one that the shim
    wrote itself.
    """
    return run.status.phase is None or (
        run.status.phase is Phase.PENDING and run.status.reason in CORRECTABLE
    )


def has_unacknowledged_edit(run: InferenceRun) -> bool:
    """Whether the run's workflow has read an older spec than the current one and has not been sent
    the newer one.

    Without an acknowledged generation the workflow has not read the spec yet, and after a rejection
    it did not exist.
    """
    observed = run.status.observed_generation
    return observed is not None and run.metadata.generation > observed and not may_write_status(run)


def is_started(item: Object) -> bool:
    """Whether the run's workflow has been heard of."""
    status = status_of(item)
    return bool(status.get("phase")) and status.get("reason") not in OWN_REASONS


def is_over(item: Object) -> bool:
    """Whether nothing is left to do for a run."""
    return (
        has_ended(item) and not item["metadata"].get("deletionTimestamp") and not lacks_mark(item)
    )


def has_come_further(item: Object | None, *, since: Object) -> bool:
    """Whether a launch has changed the run, or it is gone."""
    if item is None:
        return True
    now, before = status_of(item), status_of(since)
    return is_started(item) and any(
        now.get(name) != before.get(name) for name in ("reason", "message", "jobStatus")
    )


def lacks_mark(item: Object) -> bool:
    """Whether a run has started, or has ended, and a copy of it would not show that."""
    metadata = item["metadata"]
    annotations = annotations_of(item)
    is_left_alone = annotations.get(wellknown.ANNOTATION_PAUSED) == "true" or metadata.get(
        "deletionTimestamp"
    )
    has_started = not is_schedule(item) and status_of(item).get("phase") in _STARTED
    return bool(
        has_started
        and not is_left_alone
        and annotations.get(wellknown.ANNOTATION_STARTED_AS) != metadata["uid"]
    )

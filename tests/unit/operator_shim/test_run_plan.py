"""What the shim does about a run, derived from its current state and the memory of earlier
plans."""

from dataclasses import replace
from typing import Any

import pytest

from inferrun.reasons import Reason
from inferrun.run_defaults import Defaults
from operator_shim.run_plan import (
    ACCEPT_SECONDS,
    LAUNCH_SECONDS,
    NEVER,
    NEW,
    Command,
    Due,
    Lane,
    Memory,
    News,
    View,
    accepted_status,
    decide,
    has_unacknowledged_edit,
    is_over,
    may_write_status,
    plan_run,
    told,
)
from tests.unit.objects import NOW, STARTED, UID, Json, run

REQUESTED = {"annotations": {"inferrun.dev/cancel-requested": "true"}}
COPY = {"annotations": {"inferrun.dev/started-as": "the UID of another one"}}
DELETED = {"deletionTimestamp": STARTED}
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": STARTED}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, Command.START),
        ({"status": {"phase": "Pending", "reason": "ConfigNotFound"}}, Command.START),
        ({"status": {"phase": "Running", "contract": "e30="}}, Command.START),
        ({"status": {"phase": "Succeeded"}}, None),
        ({"status": {"phase": "Failed"}}, None),
        ({"status": {"phase": "Failed"}, "metadata": REQUESTED}, None),
        ({"status": {"phase": "Succeeded"}, "timeoutSeconds": 99}, None),
        ({"metadata": COPY}, Command.REJECT),
        (
            {"metadata": COPY, "status": {"phase": "Pending", "reason": "ExecutedBefore"}},
            Command.REJECT,
        ),
        ({"metadata": COPY, "status": {"phase": "Succeeded"}}, None),
        ({"metadata": COPY, "status": {"phase": "Running", "contract": "e30="}}, Command.START),
        ({"metadata": COPY, "schedule": "@daily"}, Command.KEEP),
        ({"metadata": {"finalizers": ["finalizer.managedresource.krateo.io"]}}, Command.START),
        ({"metadata": {"annotations": {"krateo.io/paused": "true"}}}, None),
        ({"metadata": {"annotations": {"krateo.io/paused": "false"}}}, Command.START),
        ({"schedule": "0 9 * * MON"}, Command.KEEP),
        ({"schedule": "0 9 * * MON", "suspend": True}, Command.KEEP),
        ({"schedule": "@daily", "status": {"phase": "Scheduled"}}, Command.KEEP),
        ({"schedule": "12345"}, Command.REJECT),
        ({"schedule": "@daily", "timeZone": "Mars/Olympus"}, Command.REJECT),
        ({"parameters": {"job_uid": "forged"}}, Command.REJECT),
        ({"metadata": REQUESTED, "status": {"phase": "Running"}}, Command.CANCEL),
        ({"metadata": REQUESTED, "status": {"phase": "Pending"}}, Command.CANCEL),
        ({"metadata": REQUESTED}, Command.START),
        ({"status": {"conditions": [CONDITION]}}, None),
        ({"status": {"contract": "e30="}}, None),
        ({"status": {"jobStatus": {"name": "inf-iris-5be07ada"}}}, None),
    ],
)
def test_the_action_depends_on_the_current_state_only(
    given: dict[str, Any], kind: Command | None
) -> None:
    assert decide(run(**given)).kind is kind


@pytest.mark.parametrize(
    ("given", "reason", "named"),
    [
        ({"schedule": "12345"}, Reason.INVALID_SCHEDULE, "spec.schedule"),
        ({"schedule": "0 0 30 2 *"}, Reason.INVALID_SCHEDULE, "spec.schedule"),
        (
            {"schedule": "@daily", "timeZone": "Mars/Olympus"},
            Reason.INVALID_TIME_ZONE,
            "spec.timeZone",
        ),
        ({"parameters": {"pod_uid": "forged"}}, Reason.INVALID_SPEC, "spec.parameters"),
    ],
)
def test_a_rejection_names_the_field(given: dict[str, Any], reason: Reason, named: str) -> None:
    action = decide(run(**given))
    assert action.reason is reason
    assert named in action.message


def test_a_started_run_is_not_rejected_by_a_newer_rule() -> None:
    started = run(parameters={"job_uid": "old"}, status={"phase": "Running", "contract": "e30="})
    assert decide(started).kind is Command.START


@pytest.mark.parametrize(
    ("status", "may_write"),
    [
        ({}, True),
        ({"phase": "Pending", "reason": "InvalidSpec"}, True),
        ({"phase": "Pending", "reason": "InvalidSchedule"}, True),
        ({"phase": "Pending", "reason": "Accepted"}, False),
        ({"phase": "Pending", "reason": "ConfigNotFound"}, False),
        ({"phase": "Running", "reason": "InvalidSpec"}, False),
        ({"phase": "Failed", "reason": "InvalidSpec"}, False),
    ],
)
def test_the_shim_overwrites_only_an_empty_status_or_its_own_rejection(
    *, status: Json, may_write: bool
) -> None:
    assert may_write_status(run(status=status)) is may_write


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"phase": "Pending", "reason": "Accepted"}, False),
        ({"phase": "Pending", "reason": "InvalidSpec", "observedGeneration": 1}, False),
        ({"phase": "Pending", "reason": "ConfigNotFound", "observedGeneration": 1}, True),
        ({"phase": "Running", "reason": "Running", "observedGeneration": 2}, True),
        ({"phase": "Running", "reason": "Running", "observedGeneration": 3}, False),
    ],
)
def test_an_edit_is_sent_until_it_is_acknowledged(status: Json, *, expected: bool) -> None:
    """The run's generation is 3."""
    assert has_unacknowledged_edit(run(status=status)) is expected


def test_a_schedule_that_fires_too_often_is_rejected_with_the_setting() -> None:
    action = decide(
        run(schedule="*/5 * * * *"), defaults=Defaults(min_schedule_interval_seconds=600)
    )
    assert (action.kind, action.reason) == (Command.REJECT, Reason.INVALID_SCHEDULE)
    assert (
        "it fires every 300 s; at least 600 s are required in this installation" in action.message
    )
    allowed = decide(
        run(schedule="*/10 * * * *"), defaults=Defaults(min_schedule_interval_seconds=600)
    )
    assert allowed.kind is Command.KEEP


START: Due = (Command.START, Lane.STARTS)
ACCEPT: Due = (Command.ACCEPT, Lane.ACCEPTANCE)
REJECT: Due = (Command.REJECT, Lane.ACCEPTANCE)
EDIT: Due = (Command.EDIT, Lane.EXECUTIONS)
CANCEL: Due = (Command.CANCEL, Lane.EXECUTIONS)
END: Due = (Command.END, Lane.DELETIONS)
DELETE: Due = (Command.DELETE_SCHEDULE, Lane.DELETIONS)
MARK: Due = (Command.MARK, Lane.MARKS)
KEEP: Due = (Command.KEEP, Lane.SCHEDULES)
ENSURE: Due = (Command.START, Lane.EXECUTIONS)
LOOK: Due = (Command.LOOK_AGAIN, Lane.STARTS)
REMIND: Due = (Command.LOOK_AGAIN, Lane.EXECUTIONS)
ENSURED = Memory(is_ensured=True)
MARKED = {"inferrun.dev/started-as": UID}
KRATEOS = "finalizer.managedresource.krateo.io"
SCHEDULED = {"phase": "Scheduled", "reason": "Scheduled"}
WAITING = {"phase": "Pending", "reason": "ConfigNotFound", "observedGeneration": 3}
READER = {
    "phase": "Pending",
    "reason": "WaitingForRun",
    "observedGeneration": 3,
    "inputRun": {"name": "first"},
}
RUNNING = {"phase": "Running", "reason": "Running", "observedGeneration": 3, "contract": "e30="}
BACKFILL = {"schedule": "nightly", "start": "2026-11-01T00:00:00Z", "end": "2026-11-02T00:00:00Z"}
TOO_MANY = {"phase": "Pending", "reason": "TooManyActiveRuns", "observedGeneration": 1}


# Any: fields of a spec
def item(*, status: Json | None = None, metadata: Json | None = None, **spec: Any) -> Json:
    """The run as the watch shows it; its generation is 3."""
    return run(status=status or {}, metadata=metadata or {}, **spec).to_manifest()


COPIED = decide(run(metadata=COPY))
EXECUTED = {"phase": "Pending", "reason": COPIED.reason, "message": COPIED.message}

CASES: dict[str, tuple[Json, Memory, tuple[Due, ...]]] = {
    "a new run": (item(), NEW, (START,)),
    "a new run that was started": (item(), ENSURED, ()),
    "a run that a shim accepted earlier": (
        item(status={"phase": "Pending", "reason": "Accepted"}),
        NEW,
        (START,),
    ),
    "a run under way, after a restart": (item(status=WAITING), Memory(is_behind=True), (ENSURE,)),
    "one that may have missed something": (
        item(status=WAITING),
        Memory(is_ensured=True, is_behind=True, looks_again=True),
        (REMIND,),
    ),
    "what it waits for has changed": (
        item(status=WAITING),
        Memory(is_ensured=True, looks_again=True),
        (LOOK,),
    ),
    "that, of a run whose workflow is not known": (
        item(status=WAITING),
        Memory(looks_again=True),
        (ENSURE,),
    ),
    "that, of a back-fill": (
        item(status=WAITING, backfill=BACKFILL, configRef=None),
        Memory(is_ensured=True, looks_again=True),
        (REMIND,),
    ),
    "a new back-fill": (item(backfill=BACKFILL, configRef=None), NEW, (ENSURE,)),
    "a change of the status alone": (item(status=WAITING), ENSURED, ()),
    "an edit that nobody has read": (
        item(status={**WAITING, "observedGeneration": 2}),
        ENSURED,
        (EDIT,),
    ),
    "an edit of a run whose workflow is not known": (
        item(status={**WAITING, "observedGeneration": 2}),
        NEW,
        (ENSURE,),
    ),
    "an edit that was sent a moment ago": (
        item(status={**WAITING, "observedGeneration": 2}),
        Memory(is_ensured=True, sent=3),
        (),
    ),
    "an edit after one that was sent": (
        item(status={**WAITING, "observedGeneration": 1}),
        Memory(is_ensured=True, sent=2),
        (EDIT,),
    ),
    "an edit and a change": (
        item(status={**WAITING, "observedGeneration": 2}),
        Memory(is_ensured=True, looks_again=True),
        (EDIT, LOOK),
    ),
    "a run to be cancelled": (item(status=WAITING, metadata=REQUESTED), ENSURED, (CANCEL,)),
    "that, without a workflow to record it": (
        item(status=WAITING, metadata=REQUESTED),
        NEW,
        (ENSURE,),
    ),
    "a cancellation before the first status": (item(metadata=REQUESTED), NEW, (START,)),
    "a deleted run": (item(status=WAITING, metadata=DELETED), ENSURED, (END,)),
    "a deleted run that has ended": (
        item(status={"phase": "Succeeded"}, metadata=DELETED),
        NEW,
        (END,),
    ),
    "a deleted schedule": (
        item(schedule="@daily", status=SCHEDULED, metadata=DELETED),
        ENSURED,
        (DELETE,),
    ),
    "a deleted run of the Krateo controller": (
        item(metadata={**DELETED, "finalizers": [KRATEOS]}),
        NEW,
        (END,),
    ),
    "a paused run": (item(metadata={"annotations": {"krateo.io/paused": "true"}}), NEW, ()),
    "an invalid run": (item(parameters={"job_uid": "forged"}), NEW, (REJECT,)),
    "a copy": (item(metadata=COPY), NEW, (REJECT,)),
    "one that says so": (item(metadata=COPY, status=EXECUTED), NEW, ()),
    "one that began to run": (item(status=RUNNING), ENSURED, (MARK,)),
    "one that runs and is marked": (
        item(status=RUNNING, metadata={"annotations": MARKED}),
        ENSURED,
        (),
    ),
    "one that has ended unseen": (item(status={"phase": "Failed"}), NEW, (MARK,)),
    "one that has ended": (
        item(status={"phase": "Failed"}, metadata={"annotations": MARKED}),
        ENSURED,
        (),
    ),
    "a new schedule": (item(schedule="@daily"), NEW, (KEEP,)),
    "a schedule that is in line": (item(schedule="@daily", status=SCHEDULED), ENSURED, ()),
    "that, when it is due": (
        item(schedule="@daily", status=SCHEDULED),
        Memory(is_ensured=True, due=99.0),
        (KEEP,),
    ),
    "a schedule of which a run has changed": (
        item(schedule="@daily", status=SCHEDULED),
        Memory(is_ensured=True, looks_again=True),
        (KEEP,),
    ),
    "an invalid schedule": (item(schedule="12345"), NEW, (KEEP,)),
    "a workflow that is left over": (
        item(status={"phase": "Failed"}, metadata={"annotations": MARKED}),
        Memory(left_over=News.WORKFLOW_LEFT),
        (END,),
    ),
    "a run that is not over, and was taken to be": (
        item(status=WAITING),
        Memory(left_over=News.OVERDUE),
        (ENSURE,),
    ),
}


@pytest.mark.parametrize(("given", "memory", "due"), CASES.values(), ids=CASES)
def test_what_is_due_follows_from_the_state_and_the_memory(
    given: Json, memory: Memory, due: tuple[Due, ...]
) -> None:
    assert plan_run(View(given, now=100.0), memory).commands == due


@pytest.mark.parametrize(
    ("left", "memory", "due"),
    [
        (None, ENSURED, ()),
        (run(), ENSURED, (END,)),
        (run(schedule="@daily"), ENSURED, (DELETE,)),
        (None, Memory(left_over=News.WORKFLOW_LEFT), (END,)),
        (None, Memory(left_over=News.SCHEDULE_LEFT), (DELETE,)),
        (None, Memory(left_over=News.OVERDUE), ((Command.CLEAN_UP, Lane.DELETIONS),)),
    ],
)
def test_what_is_left_of_a_run_that_is_gone_is_ended(
    left: Any, memory: Memory, due: tuple[Due, ...]
) -> None:
    planned = plan_run(View(None, now=0.0, left=left), memory)
    assert planned.commands == due
    assert planned.memory is None or planned.memory.left_over is not None


@pytest.mark.parametrize(
    "status", [{}, TOO_MANY, {"phase": "Pending", "reason": "Accepted"}], ids=str
)
def test_a_run_waits_until_there_is_room_and_says_so_once(status: Json) -> None:
    limit = Defaults(max_active_runs_per_namespace=2)
    waits = plan_run(View(item(status=status), now=0.0, room=0, defaults=limit), NEW)
    assert waits.memory is not None
    assert waits.memory.waits_for_room
    assert waits.commands == (ACCEPT,)
    assert "2 active runs" in waits.action.message
    said = item(
        status={"phase": "Pending", "reason": waits.action.reason, "message": waits.action.message}
    )
    assert plan_run(View(said, now=0.0, room=0, defaults=limit), waits.memory).commands == ()
    starts = plan_run(View(said, now=0.0, room=1, defaults=limit), waits.memory)
    assert starts.commands == (START,)
    assert starts.memory is not None
    assert starts.memory.waits_for_room, "it keeps its place until it is started"


@pytest.mark.parametrize(
    ("given", "memory", "takes_room"),
    [
        (item(), NEW, False),
        (item(), Memory(takes_room=True), True),
        (item(status=WAITING), NEW, True),
        (item(status=READER), Memory(takes_room=True), False),
        (item(status=WAITING, backfill=BACKFILL, configRef=None), NEW, False),
        (item(schedule="@daily", status=SCHEDULED), NEW, False),
    ],
)
def test_a_run_takes_room_from_its_start_to_its_end_unless_it_waits_for_a_run(
    *, given: Json, memory: Memory, takes_room: bool
) -> None:
    planned = plan_run(View(given, now=0.0), memory)
    assert planned.memory is not None
    assert planned.memory.takes_room is takes_room


def test_a_run_that_waits_for_a_run_needs_room_to_look_again_and_takes_it_while_it_does() -> None:
    memory = Memory(is_ensured=True, looks_again=True)
    assert plan_run(View(item(status=READER), now=0.0, room=0), memory).commands == ()
    assert plan_run(View(item(status=READER), now=0.0, room=1), memory).commands == (LOOK,)
    launching = plan_run(
        View(item(status=READER), now=0.0, is_launching=True), Memory(takes_room=True)
    ).memory
    assert launching is not None
    assert launching.takes_room


@pytest.mark.parametrize("schedule", [None, "@daily"])
def test_the_first_status_waits_a_moment(schedule: str | None) -> None:
    given = item() if schedule is None else item(schedule=schedule)
    first = plan_run(View(given, now=7.0), NEW).memory
    assert first is not None
    assert first.due == 7.0 + ACCEPT_SECONDS
    assert ACCEPT not in plan_run(View(given, now=7.1), first).commands
    late = plan_run(View(given, now=first.due), first)
    assert ACCEPT in late.commands
    assert late.memory == first, "it is due until the run has a phase"


@pytest.mark.parametrize(("is_ensured", "is_moving"), [(True, False), (False, True)])
def test_the_first_status_waits_longer_once_if_the_launch_is_under_way(
    *, is_ensured: bool, is_moving: bool
) -> None:
    memory = Memory(is_ensured=is_ensured, due=1.0)
    later = plan_run(View(item(), now=1.0, is_moving=is_moving), memory)
    assert ACCEPT not in later.commands
    assert later.memory is not None
    assert later.memory.due == 1.0 + LAUNCH_SECONDS
    assert (
        ACCEPT
        in plan_run(View(item(), now=later.memory.due, is_moving=is_moving), later.memory).commands
    )


def test_the_memory_of_a_run_under_way_has_no_time() -> None:
    planned = plan_run(
        View(item(status=WAITING), now=9.0), Memory(is_ensured=True, is_postponed=True, due=5.0)
    )
    assert planned.memory == Memory(is_ensured=True, takes_room=True)


@pytest.mark.parametrize("status", [{"phase": "Succeeded"}, {"phase": "Failed"}])
def test_a_run_that_has_ended_is_forgotten(status: Json) -> None:
    given = item(status=status, metadata={"annotations": MARKED})
    assert is_over(given)
    assert plan_run(View(given, now=0.0), Memory(is_ensured=True, takes_room=True)).memory is None


def test_news_add_up_until_they_are_dealt_with() -> None:
    memory = told(Memory(is_ensured=True), News.AWAITED_CHANGED, is_behind=False)
    memory = told(replace(memory, sent=2), News.LOST, is_behind=True)
    assert memory == Memory(looks_again=True), (
        "a run that something is due for does not fall behind"
    )
    assert told(NEW, News.CHANGED, is_behind=True).is_behind
    assert told(NEW, News.CHANGED, is_behind=True).due == NEVER
    assert not told(Memory(is_behind=True), News.CHANGED, is_behind=False).is_behind


def test_a_first_status_is_written_unless_the_run_has_another_one_by_then() -> None:
    action = plan_run(View(item(parameters={"job_uid": "forged"}), now=0.0), NEW).action
    rejected = accepted_status(run(parameters={"job_uid": "forged"}), action, now=NOW)
    assert rejected is not None
    assert (rejected.reason, rejected.observed_generation) == ("InvalidSpec", 3)
    assert accepted_status(run(status=rejected.to_manifest()), action, now=NOW) is None
    assert accepted_status(run(status=WAITING), action, now=NOW) is None
    accepted = plan_run(View(item(), now=1.0), Memory(due=0.5)).action
    written = accepted_status(run(), accepted, now=NOW)
    assert written is not None
    assert written.observed_generation is None, "its workflow has not read the spec yet"

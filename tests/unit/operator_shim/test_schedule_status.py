"""The status of a schedule: fire times, last runs and unfinished runs."""

from datetime import UTC, datetime, timedelta

from inferrun import wellknown
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, parse_run
from operator_shim.schedule_status import rejected_status, schedule_status

NOW = datetime(2026, 11, 21, 9, 0, 5, tzinfo=UTC)
NEXT = tuple(NOW.replace(second=0) + timedelta(minutes=minute) for minute in range(1, 11))


def schedule(*, suspend: bool = False, **status: object) -> InferenceRun:
    spec = {"configRef": {"name": "iris"}, "schedule": "* * * * *", "suspend": suspend}
    metadata = {"name": "often", "namespace": "team", "uid": "parent", "generation": 3}
    return parse_run({"metadata": metadata, "spec": spec, "status": status})


def child(
    name: str, *, phase: Phase, due: str, ended: str | None = None, parent: str = "parent"
) -> InferenceRun:
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "labels": {wellknown.LABEL_SCHEDULE_UID: parent},
        "annotations": {wellknown.ANNOTATION_SCHEDULED_TIME: due},
    }
    status = {"phase": phase, "completionTime": ended}
    return parse_run(
        {"metadata": metadata, "spec": {"configRef": {"name": "iris"}}, "status": status}
    )


CHILDREN = [
    child("b", phase=Phase.RUNNING, due="2026-11-21T09:00:00Z"),
    child("a", phase=Phase.PENDING, due="2026-11-21T08:59:00Z"),
    child("c", phase=Phase.SUCCEEDED, due="2026-11-21T08:57:00Z", ended="2026-11-21T08:57:30Z"),
    child("d", phase=Phase.FAILED, due="2026-11-21T08:58:00Z", ended="2026-11-21T08:58:30Z"),
    child("x", phase=Phase.RUNNING, due="2026-11-21T10:00:00Z", parent="another"),
]


def test_the_status_lists_the_next_times_and_the_unfinished_runs() -> None:
    status = schedule_status(
        schedule(), next_times=NEXT, last_time=None, children=CHILDREN, now=NOW
    )
    assert (status.phase, status.reason) == (Phase.SCHEDULED, Reason.SCHEDULED)
    assert status.message == "the next run is due at 2026-11-21T09:01:00Z"
    assert status.next_schedule_times == NEXT[:5]
    assert [active.name for active in status.active] == ["a", "b"]


def test_unfinished_runs_that_have_no_room_in_the_status_are_counted_in_its_message() -> None:
    many = [
        child(f"run-{number}", phase=Phase.RUNNING, due="2026-11-21T09:00:00Z")
        for number in range(70)
    ]
    status = schedule_status(schedule(), next_times=NEXT, last_time=None, children=many, now=NOW)
    assert len(status.active) == 64
    assert (
        status.message
        == "the next run is due at 2026-11-21T09:01:00Z; 70 runs are unfinished, 64 of them are listed"
    )


def test_the_status_shows_the_times_with_their_jitter_in_whole_seconds() -> None:
    late = [moment + timedelta(seconds=17, milliseconds=345) for moment in NEXT]
    status = schedule_status(
        schedule(), next_times=late, last_time=NOW.replace(second=13), children=[], now=NOW
    )
    assert status.next_schedule_times == tuple(
        moment + timedelta(seconds=17) for moment in NEXT[:5]
    )
    assert status.last_schedule_time == NOW.replace(second=13, microsecond=0)


def test_the_last_times_are_kept_after_the_runs_are_deleted() -> None:
    first = schedule_status(schedule(), next_times=NEXT, last_time=None, children=CHILDREN, now=NOW)
    assert first.last_schedule_time == datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
    assert first.last_successful_time == datetime(2026, 11, 21, 8, 57, 30, tzinfo=UTC)
    stored = schedule(**first.to_manifest())
    later = schedule_status(stored, next_times=NEXT, last_time=None, children=[], now=NOW)
    assert later.last_schedule_time == first.last_schedule_time
    assert later.last_successful_time == first.last_successful_time
    assert later.active == ()


def test_the_last_fire_time_is_reported_before_its_run_exists() -> None:
    fired = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
    status = schedule_status(schedule(), next_times=NEXT, last_time=fired, children=[], now=NOW)
    assert status.last_schedule_time == fired


def test_a_suspended_schedule_has_no_next_time() -> None:
    status = schedule_status(
        schedule(suspend=True), next_times=NEXT, last_time=None, children=[], now=NOW
    )
    assert (status.phase, status.reason, status.next_schedule_times) == (
        Phase.SUSPENDED,
        Reason.SUSPENDED,
        (),
    )


def test_the_status_is_stable() -> None:
    first = schedule_status(schedule(), next_times=NEXT, last_time=None, children=CHILDREN, now=NOW)
    stored = schedule(**first.to_manifest())
    again = schedule_status(
        stored, next_times=NEXT, last_time=None, children=CHILDREN, now=NOW + timedelta(seconds=20)
    )
    assert again == stored.status


def test_a_schedule_in_place_is_ready_but_neither_finished_nor_succeeded() -> None:
    status = schedule_status(schedule(), next_times=NEXT, last_time=None, children=[], now=NOW)
    values = {condition.type: str(condition.status) for condition in status.conditions}
    assert values == {
        "Succeeded": "Unknown",
        "Finished": "False",
        "Ready": "True",
        "Synced": "True",
    }


def test_an_invalid_edit_of_a_schedule_is_reported_and_removes_the_next_times() -> None:
    kept = schedule_status(schedule(), next_times=NEXT, last_time=None, children=[], now=NOW)
    stored = schedule(**kept.to_manifest())
    status = rejected_status(
        stored, children=[], reason=Reason.INVALID_SCHEDULE, message='minute has "61"', now=NOW
    )
    assert (status.phase, status.reason, status.next_schedule_times) == (
        Phase.SUSPENDED,
        "InvalidSchedule",
        (),
    )
    synced = status.condition("Synced")
    assert synced is not None
    assert synced.status == "False"


def test_the_runs_that_go_on_are_listed_while_the_schedule_is_invalid() -> None:
    stored = schedule(
        **schedule_status(
            schedule(), next_times=NEXT, last_time=None, children=CHILDREN, now=NOW
        ).to_manifest()
    )
    status = rejected_status(
        stored,
        children=CHILDREN[:1],
        reason=Reason.INVALID_SCHEDULE,
        message='minute has "61"',
        now=NOW,
    )
    assert [active.name for active in status.active] == ["b"]


def test_a_schedule_that_was_never_valid_is_pending() -> None:
    status = rejected_status(
        schedule(), children=[], reason=Reason.INVALID_TIME_ZONE, message="no such zone", now=NOW
    )
    assert (status.phase, status.reason) == (Phase.PENDING, "InvalidTimeZone")


def test_an_invalid_scheduled_time_is_ignored() -> None:
    wrong = child("w", phase=Phase.RUNNING, due="yesterday")
    status = schedule_status(schedule(), next_times=NEXT, last_time=None, children=[wrong], now=NOW)
    assert status.last_schedule_time is None

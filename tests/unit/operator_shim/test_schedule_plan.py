"""The account of a schedule's times: what is due, what became of it, and that each time is counted
once."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from control.schedules.account import DueTime, due_times
from inferrun import wellknown
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.resources.status import ScheduledTimes, TimeOutcome
from inferrun.timestamps import parse
from operator_shim.run_plan import ACCEPTED_SCHEDULE, Action, Command
from operator_shim.schedule_plan import (
    MAX_INTERVAL,
    STARTED,
    TIMES_PER_WRITE,
    UNSETTLED_SECONDS,
    Ask,
    Ensure,
    Notify,
    Pause,
    ScheduleReport,
    ScheduleView,
    Settled,
    Step,
    Submit,
    Unsettled,
    account_of,
    advanced,
    cancellation_notice,
    corrected,
    end_of_jitter,
    notices,
    plan_schedule,
    settle,
)
from operator_shim.temporal_schedules import KeptSchedule, TimeSubmission, TimeSubmissionState
from tests.unit.objects import run

CANCEL = {"annotations": {"inferrun.dev/cancel-requested": "true"}}
NINE = parse("2026-11-21T09:00:00Z")
ABSENT = TimeSubmission(TimeSubmissionState.ABSENT)


def at(minutes: float) -> datetime:
    return NINE + timedelta(minutes=minutes)


def schedule(
    *, times: ScheduledTimes | None = None, seen: bool = True, **spec: Any
) -> InferenceRun:
    metadata = {
        "name": "often",
        "namespace": "team",
        "uid": "u",
        "creationTimestamp": "2026-11-21T08:59:30Z",
    }
    given = {"configRef": {"name": "iris"}, "schedule": "* * * * *", **spec}
    status: dict[str, Any] = {"observedGeneration": 1} if seen else {}
    if times is not None:
        status["times"] = times.to_manifest()
    return parse_run({"metadata": metadata, "spec": given, "status": status})


def child(due: datetime, *, ended: datetime | None = None) -> InferenceRun:
    annotations = {wellknown.ANNOTATION_SCHEDULED_TIME: due.isoformat()}
    metadata = {
        "name": f"often-{due:%H%M}",
        "namespace": "team",
        "uid": f"{due:%H%M}",
        "annotations": annotations,
    }
    status = (
        {"phase": "Succeeded", "completionTime": ended.isoformat()}
        if ended
        else {"phase": "Running"}
    )
    return parse_run(
        {"metadata": metadata, "spec": {"configRef": {"name": "iris"}}, "status": status}
    )


def opened(**spec: Any) -> ScheduledTimes:
    account = account_of(schedule(seen=False, **spec), now=at(0))
    assert account is not None
    return account


def due(account: ScheduledTimes, *, now: datetime) -> list[DueTime]:
    return list(due_times(account, now=now))


def settled(
    minute: float,
    run: InferenceRun,
    *children: InferenceRun,
    now: datetime,
    submission: TimeSubmission = ABSENT,
) -> Settled | Unsettled:
    account = account_of(schedule(seen=False), now=at(0))
    assert account is not None
    return settle(
        DueTime(at(minute), account.terms[0]),
        run,
        children=children,
        submission=submission,
        is_valid=True,
        now=now,
    )


def test_the_account_of_a_new_schedule_begins_with_its_creation() -> None:
    assert [one.time for one in due(opened(), now=at(2.5))] == [at(0), at(1), at(2)]


def test_that_of_one_that_an_earlier_version_has_served_begins_now() -> None:
    account = account_of(schedule(), now=at(1.5))
    assert account is not None
    assert [one.time for one in due(account, now=at(2.5))] == [at(2)]


def test_each_time_is_counted_once() -> None:
    account = opened()
    first = due(account, now=at(12))
    account = advanced(account, [(one, STARTED) for one in first[:11]])
    assert (account.started, account.until, len(account.recent)) == (11, at(10), 10)
    rest = due(account, now=at(12))
    assert [one.time for one in rest] == [at(11), at(12)]
    account = advanced(
        account, [(rest[0], Settled(TimeOutcome.MISSED, "late")), (rest[1], STARTED)]
    )
    assert (account.started, account.missed, account.until) == (12, 1, at(12))
    assert [one.outcome for one in account.recent[-2:]] == ["Missed", "Started"]
    assert advanced(account, []) is account


def test_an_edit_does_not_change_the_times_before_it() -> None:
    edited = account_of(
        schedule(times=opened(), schedule="*/30 * * * *", suspend=True), now=at(2.5)
    )
    assert edited is not None
    found = due(edited, now=at(60))
    assert [(one.time, one.terms.suspended) for one in found] == [
        *((at(minute), None) for minute in (0, 1, 2)),
        *((at(minute), True) for minute in (30, 60)),
    ]
    after = advanced(edited, [(one, STARTED) for one in found[:4]])
    assert [terms.schedule for terms in after.terms] == ["*/30 * * * *"]


def test_terms_for_which_no_time_is_due_are_dropped() -> None:
    account = account_of(schedule(times=opened(), timeZone="Europe/Rome"), now=at(-0.2))
    assert account is not None
    assert [terms.time_zone for terms in account.terms] == ["Europe/Rome"]


def test_many_edits_while_a_time_is_unsettled_lose_no_time() -> None:
    account = opened()
    for number in range(30):
        found = account_of(schedule(times=account, suspend=number % 2 == 0), now=at(number + 0.5))
        assert found is not None
        account = found
    assert len(account.terms) == 10
    assert [one.time for one in due(account, now=at(40))] == [at(minute) for minute in range(41)]


def test_an_invalid_spec_keeps_the_last_valid_schedule_and_rejects_its_times() -> None:
    assert account_of(schedule(schedule="61 * * * *"), now=at(0), is_valid=False) is None
    account = account_of(
        schedule(times=opened(), schedule="61 * * * *"), now=at(0.5), is_valid=False
    )
    assert account is not None
    found = due(account, now=at(1))
    assert [(one.time, one.terms.invalid) for one in found] == [(at(0), None), (at(1), True)]
    run = schedule(schedule="61 * * * *")
    for one in found:
        outcome = settle(one, run, children=[], submission=ABSENT, is_valid=False, now=at(2))
        assert isinstance(outcome, Settled)
        assert outcome.outcome is TimeOutcome.REJECTED


@pytest.mark.parametrize(
    ("submission", "expected"),
    [
        (TimeSubmission(TimeSubmissionState.STARTED), TimeOutcome.STARTED),
        (TimeSubmission(TimeSubmissionState.UNDER_WAY), None),
        (TimeSubmission(TimeSubmissionState.REFUSED, "Skipped", "busy"), TimeOutcome.SKIPPED),
        (TimeSubmission(TimeSubmissionState.REFUSED, "Suspended", "so"), TimeOutcome.SUSPENDED),
        (TimeSubmission(TimeSubmissionState.REFUSED, "NameTaken", "taken"), TimeOutcome.REJECTED),
        (TimeSubmission(TimeSubmissionState.REFUSED, "", "no idea"), TimeOutcome.REJECTED),
    ],
)
def test_the_submission_says_what_became_of_a_time(
    submission: TimeSubmission, expected: TimeOutcome | None
) -> None:
    found = settled(0, schedule(), now=at(1), submission=submission)
    assert (found.outcome if isinstance(found, Settled) else None) == expected
    assert isinstance(found, Settled) or found is Unsettled.WAIT


def test_a_time_that_temporal_has_not_fired_is_started_until_its_deadline() -> None:
    run = schedule(startingDeadlineSeconds=60)
    assert settled(0, run, now=at(1)) is Unsettled.START
    found = settled(0, run, now=at(1.1))
    assert isinstance(found, Settled)
    assert found.outcome is TimeOutcome.MISSED


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (child(at(-1)), TimeOutcome.SKIPPED),
        (child(at(-1), ended=at(0.5)), TimeOutcome.SKIPPED),
        (child(at(-1), ended=at(-0.5)), None),
        (child(at(1), ended=at(1.5)), None),
    ],
)
def test_a_time_is_skipped_because_of_a_run_that_was_in_progress(
    other: InferenceRun, expected: TimeOutcome | None
) -> None:
    found = settled(0, schedule(), other, now=at(2))
    assert (found.outcome if isinstance(found, Settled) else None) == expected


@pytest.mark.parametrize("policy", ["Allow", "Replace"])
def test_of_several_times_that_were_not_fired_only_the_latest_is_started(policy: str) -> None:
    run = schedule(concurrencyPolicy=policy)
    found = settled(0, run, child(at(-1)), now=at(1))
    assert isinstance(found, Settled)
    assert found.outcome is TimeOutcome.REPLACED
    assert settled(0, run, child(at(-1)), now=at(0.9)) is Unsettled.START


def test_a_time_of_an_earlier_schedule_is_not_started_any_more() -> None:
    found = settled(1, schedule(schedule="*/30 * * * *"), now=at(2))
    assert isinstance(found, Settled)
    assert found.outcome is TimeOutcome.MISSED


def test_a_run_that_was_created_while_the_account_was_written_corrects_it() -> None:
    [first, second] = due(opened(), now=at(1))
    account = advanced(opened(), [(first, Settled(TimeOutcome.SKIPPED, "busy")), (second, STARTED)])
    assert corrected(account, has_run=[second.time]) is account
    right = corrected(account, has_run=[first.time, second.time])
    assert (right.started, right.skipped) == (2, 0)
    assert [(one.outcome, one.message) for one in right.recent] == [
        ("Started", None),
        ("Started", None),
    ]


def test_the_jitter_of_a_time_ends_before_the_next_time() -> None:
    [first] = due(opened(), now=at(0))
    assert end_of_jitter(first, schedule()) == at(0)
    assert end_of_jitter(first, schedule(jitterSeconds=30)) == at(0.5)
    assert at(0.9) < end_of_jitter(first, schedule(jitterSeconds=3600)) < at(1)


def test_there_is_one_event_for_each_outcome() -> None:
    times = due(opened(), now=at(3))
    late = Settled(TimeOutcome.MISSED, "it was late")
    busy = Settled(TimeOutcome.SKIPPED, "it was busy")
    assert notices([(times[0], late), (times[1], STARTED), (times[2], busy), (times[3], late)]) == [
        ("Skipped", "it was busy"),
        (
            "Missed",
            "2 runs due from 2026-11-21T09:00:00Z to 2026-11-21T09:03:00Z were not created; the last one: it was late",
        ),
    ]


@pytest.mark.parametrize(
    ("minutes", "every", "is_missed"),
    [
        (0.9, "* * * * *", False),
        (1.3, "* * * * *", True),
        (20, "0 9 * * *", False),
        (61, "0 9 * * *", True),
    ],
    ids=["alone", "holds up the next one", "in time", "past its deadline"],
)
def test_the_time_of_a_paused_submission_is_kept_for_as_long_as_that_delays_nothing(
    *, minutes: float, every: str, is_missed: bool
) -> None:
    paused = TimeSubmission(TimeSubmissionState.PAUSED, message="its submission is paused")
    run = schedule(schedule=every, startingDeadlineSeconds=3600)
    [first, *_] = due(opened(schedule=every), now=at(minutes))
    found = settle(first, run, children=(), submission=paused, is_valid=True, now=at(minutes))
    if not is_missed:
        assert found is Unsettled.WAIT
        return
    assert isinstance(found, Settled)
    assert found.outcome is TimeOutcome.MISSED
    assert "its submission is paused" in found.message


def test_a_schedule_without_a_request_for_cancellation_gets_no_advice() -> None:
    assert cancellation_notice(run(schedule="@daily")) == ""
    declined = {"annotations": {"inferrun.dev/cancel-requested": "false"}}
    assert cancellation_notice(run(schedule="@daily", metadata=declined)) == ""


def test_the_advice_fits_into_an_event_whatever_the_name() -> None:
    notice = cancellation_notice(
        run(schedule="@daily", metadata={**CANCEL, "name": "x" * 253, "namespace": "y" * 63})
    )
    assert len(notice) < 1000


def steps_of(
    given: InferenceRun,
    *answers: TimeSubmission | None,
    now: datetime,
    differed: str = "",
    **view: Any,
) -> tuple[list[Step], ScheduleReport]:
    """The steps of a plan, of which those that ask are answered in order, and its end."""
    listed = {
        "action": ACCEPTED_SCHEDULE,
        "children": (),
        "is_listed": True,
        "run_at": lambda _time: None,
        **view,
    }
    plan = plan_schedule(ScheduleView(given, now=now, **listed))
    left, steps = list(answers), list[Step]()
    answer: KeptSchedule | TimeSubmission | None = None
    while True:
        try:
            step = plan.send(answer)
        except StopIteration as done:
            return steps, done.value
        steps.append(step)
        answer = left.pop(0) if isinstance(step, Ask) else None
        if isinstance(step, Ensure):
            answer = KeptSchedule((now + timedelta(seconds=30),), None, differed)


UNDER_WAY = TimeSubmission(TimeSubmissionState.UNDER_WAY)
FIRED = TimeSubmission(TimeSubmissionState.STARTED)
REFUSED = TimeSubmission(TimeSubmissionState.REFUSED, "Skipped", "another one was in progress")


def kinds(steps: list[Step]) -> list[type[Step]]:
    return [type(step) for step in steps]


@pytest.mark.parametrize(
    ("answers", "kind", "started", "wait"),
    [
        ((FIRED, FIRED), [Ensure, Ask, Ask], 2, 31.0),
        ((FIRED, REFUSED), [Ensure, Ask, Ask, Notify], 1, 31.0),
        ((UNDER_WAY,), [Ensure, Ask], 0, UNSETTLED_SECONDS),
        ((FIRED, None), [Ensure, Ask, Ask], 1, 0.0),
    ],
    ids=["both had runs", "one was skipped", "the first is under way", "Temporal is busy"],
)
def test_the_times_of_a_schedule_are_settled_in_their_order(
    answers: tuple[TimeSubmission | None, ...], kind: list[type[Step]], started: int, wait: float
) -> None:
    given = schedule(times=opened(), startingDeadlineSeconds=3600, concurrencyPolicy="Allow")
    steps, report = steps_of(given, *answers, now=at(1.5))
    assert (kinds(steps), report.wait) == (kind, wait)
    status = report.status(given)
    assert status is not None
    assert status.times is not None
    assert status.times.started == started


def test_a_time_that_temporal_has_lost_is_submitted() -> None:
    steps, report = steps_of(schedule(times=opened()), ABSENT, now=at(0.5))
    assert kinds(steps) == [Ensure, Ask, Submit]
    assert report.wait == UNSETTLED_SECONDS


def test_only_the_first_time_must_be_answered_for() -> None:
    steps, _ = steps_of(schedule(times=opened()), FIRED, FIRED, now=at(1.5))
    assert [step.may_fail for step in steps if isinstance(step, Ask)] == [False, True]


def test_a_time_with_a_run_needs_no_answer() -> None:
    steps, report = steps_of(
        schedule(times=opened()), now=at(1.5), run_at=lambda _time: {"metadata": {}}
    )
    assert (kinds(steps), report.wait) == ([Ensure], 31.0)


def test_no_time_is_settled_before_all_runs_are_known() -> None:
    given = schedule(times=opened())
    steps, report = steps_of(given, now=at(1.5), is_listed=False)
    assert (kinds(steps), report.wait) == ([Ensure], 1.0)
    status = report.status(given)
    assert status is not None
    assert status.times == given.status.times


def test_many_times_are_written_in_parts() -> None:
    given = schedule(times=opened())
    _, report = steps_of(given, now=at(TIMES_PER_WRITE + 1), run_at=lambda _time: {"metadata": {}})
    assert report.wait == 0.0


def test_a_schedule_with_an_invalid_spec_is_paused_and_says_why() -> None:
    given = schedule(times=opened())
    action = Action(Command.REJECT, Reason.INVALID_SCHEDULE, "spec.schedule: no")
    steps, report = steps_of(given, now=at(0.1), action=action)
    assert steps[0] == Pause("InvalidSchedule: spec.schedule: no")
    status = report.status(given)
    assert status is not None
    assert (status.reason, status.message) == ("InvalidSchedule", "spec.schedule: no")
    _, report = steps_of(schedule(seen=False), now=at(0.1), action=action)
    assert report.wait == MAX_INTERVAL


def test_a_schedule_that_was_changed_in_temporal_is_restored_and_says_so() -> None:
    given = schedule(times=opened())
    given = given.model_copy(
        update={"metadata": given.metadata.model_copy(update={"generation": 1})}
    )
    steps, _ = steps_of(given, now=at(0.1), differed="it was unpaused")
    [event] = [step for step in steps if isinstance(step, Notify)]
    assert event.reason is Reason.SCHEDULE_RESTORED
    assert "because it was unpaused" in event.message


def test_the_status_is_not_written_if_the_spec_has_changed_and_the_account_not_twice() -> None:
    given = schedule(times=opened())
    _, report = steps_of(given, FIRED, FIRED, now=at(1.5))
    edited = given.model_copy(
        update={"metadata": given.metadata.model_copy(update={"generation": 9})}
    )
    assert report.status(edited) is None
    counted = advanced(opened(), [(due(opened(), now=at(0.5))[0], STARTED)])
    status = report.status(
        given.model_copy(update={"status": given.status.model_copy(update={"times": counted})})
    )
    assert status is not None
    assert status.times == counted

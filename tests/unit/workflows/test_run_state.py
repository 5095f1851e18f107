"""The state of a run's workflow and the messages made from it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from inferrun.resources.status import ATTEMPTS_LIMIT
from inferrun.runner_report import RecordCounts
from tests.unit.objects import RUN, STARTED
from workflows.messages import (
    LaunchInput,
    LaunchReport,
    LaunchResult,
    LaunchStage,
    LaunchState,
    RunInput,
    SpecChanged,
)
from workflows.run_state import RunState
from workflows.signals import Ended, LaunchSignals

NOW = datetime(2026, 11, 21, 8, 1, 0, tzinfo=UTC)
FAILED = Verdict(
    kind=VerdictKind.FAILED,
    reason=Reason.INPUT_FAILED,
    message="exit code 3",
    exit_code=3,
    started_at="2026-11-21T08:00:00Z",
    finished_at="2026-11-21T08:00:30Z",
)


def launched(**changes: object) -> LaunchResult:
    given = {
        "state": LaunchState.LAUNCHED,
        "job_name": "inf-iris",
        "job_uid": "u",
        "timeout_seconds": 100,
        **changes,
    }
    return LaunchResult.model_validate(given)


@pytest.fixture
def state() -> RunState:
    """A run whose first Job was created."""
    made = new_state()
    made.begin_launch()
    made.accept_launch(launched())
    return made


def new_state() -> RunState:
    return RunState(RunInput(namespace=RUN.namespace, name=RUN.name, uid=RUN.uid))


def test_a_verdict_without_times_gets_those_that_the_workflow_observed(state: RunState) -> None:
    state.started_at = "2026-11-21T08:00:00Z"
    verdict = state.finish_launch(
        FAILED.model_copy(update={"started_at": None, "finished_at": None}), now=NOW
    )
    assert (verdict.started_at, verdict.finished_at) == (
        "2026-11-21T08:00:00Z",
        "2026-11-21T08:01:00Z",
    )
    assert state.started_at is None


BEGAN = "2026-11-21T08:00:00Z"


@pytest.mark.parametrize(
    ("limit", "used", "started_at", "left"),
    [
        (0, 500, BEGAN, None),
        (100, 0, None, 100),
        (100, 30, None, 70),
        (100, 30, BEGAN, 10),
        (50, 0, BEGAN, -10),
    ],
)
def test_the_running_clock_counts_earlier_launches_and_the_running_container(
    state: RunState, *, limit: int, used: float, started_at: str | None, left: float | None
) -> None:
    job = launched(timeout_seconds=limit, seconds_used=used)
    state.accept_launch(job)
    state.started_at = started_at
    assert state.running_seconds_left(now=NOW) == left
    assert started_at is None or state.expires_in(job, now=NOW) == left


@pytest.mark.parametrize(("limit", "left"), [(0, None), (100, 40), (50, -10)])
def test_the_pending_clock_counts_from_when_the_run_began_to_wait(
    state: RunState, *, limit: int, left: float | None
) -> None:
    job = launched(pending_timeout_seconds=limit, pending_since=BEGAN)
    assert state.expires_in(job, now=NOW) == left


def test_only_the_latest_attempts_are_kept(state: RunState) -> None:
    for _ in range(30):
        state.add_attempt(launched(), FAILED, Reason.INPUT_FAILED)
        state.next_launch(is_counted=False)
    assert [item.launch for item in state.progress.attempts] == list(range(31 - ATTEMPTS_LIMIT, 31))


def test_a_cancelled_launch_is_listed_with_its_pod_and_not_as_one_that_somebody_deleted(
    state: RunState,
) -> None:
    gone = Verdict(
        kind=VerdictKind.JOB_GONE,
        reason=Reason.JOB_DELETED,
        message="another client deleted the Job",
        started_at="2026-11-21T08:00:00Z",
        finished_at="2026-11-21T08:00:30Z",
        pod_name="inf-iris-abc",
    )
    state.list_cancelled(launched(), LaunchReport(stage=LaunchStage.ENDED, verdict=gone), now=NOW)
    state.list_cancelled(launched(), LaunchReport(stage=LaunchStage.ENDED, verdict=gone), now=NOW)
    [listed] = state.progress.attempts
    assert (listed.reason, listed.message, listed.pod_name) == (
        "Cancelled",
        "the run was cancelled",
        "inf-iris-abc",
    )
    assert listed.start_time is not None
    assert listed.completion_time is not None


def test_a_launch_that_failed_before_its_run_was_cancelled_keeps_its_exit_code(
    state: RunState,
) -> None:
    state.list_cancelled(launched(), LaunchReport(stage=LaunchStage.ENDED, verdict=FAILED), now=NOW)
    [listed] = state.progress.attempts
    assert (listed.reason, listed.message, listed.exit_code) == ("Cancelled", "exit code 3", 3)


def test_a_cancellation_before_the_next_launch_lists_nothing_more(state: RunState) -> None:
    state.add_attempt(launched(), FAILED, Reason.INPUT_FAILED)
    state.next_launch(is_counted=True, has_waited=False)
    state.list_cancelled(launched(), LaunchReport(stage=LaunchStage.ENDED), now=NOW)
    assert [item.launch for item in state.progress.attempts] == [1]


def test_a_workflow_that_takes_over_a_cancelled_run_lists_its_last_launch_once(
    state: RunState,
) -> None:
    """The status of the run, whose workflow Temporal has forgotten, says that the launch has ended;
    its Job is known by name."""
    state.list_cancelled(launched(), LaunchReport(stage=LaunchStage.ENDED, verdict=FAILED), now=NOW)
    successor = new_state()
    left_over = launched(state=LaunchState.CANCELLED, launch=2, attempts=state.progress.attempts)
    successor.accept_launch(left_over)
    successor.list_cancelled(
        left_over, LaunchReport(stage=LaunchStage.ENDED, verdict=FAILED), now=NOW
    )
    assert successor.progress.attempts == state.progress.attempts


def test_an_edit_of_the_timeout_applies_until_the_next_launch_reads_the_spec(
    state: RunState,
) -> None:
    state.edit_spec(SpecChanged(timeout_seconds=7))
    assert state.timeout_seconds == 7
    state.begin_launch()
    state.accept_launch(launched(timeout_seconds=9))
    assert state.timeout_seconds == 9


def test_continuing_as_new_keeps_the_state(state: RunState) -> None:
    state.add_attempt(launched(), FAILED, Reason.INPUT_FAILED)
    state.next_launch(is_counted=True)
    state.waits_since = "2026-11-21T08:05:00Z"
    restored = RunState(RunInput.model_validate_json(state.continued().model_dump_json()))
    assert (restored.run, restored.progress, restored.disruptions) == (RUN, state.progress, 0)
    assert restored.pending_since(launched()) == "2026-11-21T08:05:00Z"


def test_progress_is_at_the_top_level_of_messages_in_snake_case(state: RunState) -> None:
    """Recorded histories have it there, and a worker of the previous version reads it there."""
    placed = {"pod_name": "inf-iris-abc", "node_name": "node-1", "log": "the file is empty"}
    state.add_attempt(launched(), FAILED.model_copy(update=placed), Reason.INPUT_FAILED)
    sent = json.loads(state.begin_launch().model_dump_json())
    assert sent == {
        "run": RUN.model_dump(),
        "snapshot": "",
        "launch": 1,
        "attempt": 1,
        "seconds_used": 0.0,
        "first_started_at": None,
        "waits": 0,
        "uncounted": 0,
        "committed": 0,
        "attempts": [
            {
                "launch": 1,
                "attempt": 1,
                "replaced": None,
                "job_name": "inf-iris",
                "pod_name": "inf-iris-abc",
                "node_name": "node-1",
                "start_time": "2026-11-21T08:00:00Z",
                "completion_time": "2026-11-21T08:00:30Z",
                "exit_code": 3,
                "reason": "InputFailed",
                "message": "exit code 3",
                "log": "the file is empty",
            }
        ],
    }
    assert LaunchInput.model_validate(sent).attempts == state.progress.attempts


def test_an_outcome_begins_with_the_first_attempts_start(state: RunState) -> None:
    state.add_attempt(launched(), FAILED, Reason.INPUT_FAILED)
    outcome = state.outcome(FAILED, Phase.FAILED, Reason.INPUT_FAILED)
    assert (outcome.started_at, outcome.finished_at) == (
        "2026-11-21T08:00:00Z",
        "2026-11-21T08:00:30Z",
    )
    assert (outcome.exit_code, outcome.reason) == (3, Reason.INPUT_FAILED)


GONE = Verdict(kind=VerdictKind.JOB_GONE, reason=Reason.JOB_DELETED)


def test_a_job_that_was_gone_at_its_launch_uses_the_time_since_its_start() -> None:
    state = new_state()
    state.accept_launch(launched(started_at="2026-11-21T08:00:20Z"))
    state.finish_launch(GONE, now=NOW)
    assert state.progress.seconds_used == 40


def test_the_run_started_with_its_first_container_however_many_launches_followed(
    state: RunState,
) -> None:
    never = Verdict(kind=VerdictKind.NEVER_RAN, reason=Reason.CONTAINER_NOT_STARTED)
    state.add_attempt(launched(), state.finish_launch(never, now=NOW), never.reason)
    for number in range(ATTEMPTS_LIMIT + 5):
        began = f"2026-11-21T07:{number:02}:00Z"
        verdict = FAILED.model_copy(update={"started_at": began, "finished_at": began})
        state.add_attempt(launched(), state.finish_launch(verdict, now=NOW), verdict.reason)
        state.next_launch(is_counted=True)
    outcome = state.outcome(FAILED, Phase.FAILED, Reason.INPUT_FAILED)
    assert len(outcome.attempts) == ATTEMPTS_LIMIT
    assert outcome.started_at == "2026-11-21T07:00:00Z"
    assert (
        RunState(state.continued()).outcome(FAILED, Phase.FAILED, Reason.INPUT_FAILED).started_at
        == outcome.started_at
    )


def test_a_launch_that_is_under_way_is_continued_with_its_clock_and_its_edits(
    state: RunState,
) -> None:
    state.started_at, state.pod_uid = "2026-11-21T08:00:20Z", "pod-a"
    state.edit_spec(SpecChanged(timeout_seconds=500, suspend=True))
    state.lose_pod(is_disrupted=True, now=NOW)
    state.started_at = "2026-11-21T08:00:50Z"
    continued = RunState(
        RunInput.model_validate_json(state.continued(following=state.job).model_dump_json())
    )
    following = continued.take_following()
    assert following is not None
    assert (following.job_uid, following.is_adopted) == ("u", True)
    assert continued.take_following() is None
    assert (continued.timeout_seconds, continued.is_suspended, continued.pod_uid) == (
        500,
        True,
        "pod-a",
    )
    assert (
        continued.running_seconds_left(now=NOW)
        == state.running_seconds_left(now=NOW)
        == 500 - 40 - 10
    )
    assert continued.disruptions == 1


@pytest.mark.parametrize("is_taken", [False, True])
def test_how_pods_of_a_launch_under_way_have_ended_is_continued(
    state: RunState, *, is_taken: bool
) -> None:
    signals, following = LaunchSignals(), LaunchSignals()
    assert signals.latest_end("u", launch=1) is None
    signals.add_ended(Ended(job_uid="u", launch=1, pod_uid="pod-a", ends="signed"))
    assert signals.take_ended("u") == "pod-a" if is_taken else True
    given = state.continued(following=state.job, ended=signals.latest_end("u", launch=1))
    ended = RunInput.model_validate_json(given.model_dump_json()).ended
    assert ended is not None
    following.add_ended(ended)
    assert (following.take_ended("u"), following.of("u").ends) == (
        "" if is_taken else "pod-a",
        "signed",
    )


UNCLEAR = FAILED.model_copy(update={"reason": Reason.POD_LOST, "is_unclear": True})


def test_the_only_job_of_a_run_is_not_its_only_one_if_its_output_was_verified(
    state: RunState,
) -> None:
    """Its Job is marked as ended by then, so no sweep finds it: all Jobs are listed, and limited
    before the activity ends."""
    state.begin_launch()
    state.accept_launch(launched())
    assert state.outcome(FAILED, Phase.FAILED, Reason.RUNNER_ERROR).only_job_name
    state.must_verify(UNCLEAR, is_final=True)
    outcome = state.outcome(UNCLEAR, Phase.FAILED, Reason.POD_LOST)
    assert (outcome.only_job_name, outcome.only_job_uid) == ("", "")


def test_continuing_as_new_keeps_what_must_be_verified(state: RunState) -> None:
    state.must_verify(UNCLEAR, is_final=False)
    assert RunState(state.continued()).must_verify(FAILED, is_final=True)


@pytest.mark.parametrize(
    ("reason", "launch"),
    [
        (Reason.POD_LOST, 3),
        (Reason.JOB_DELETED, 3),
        (Reason.NODE_LOST, 3),
        (Reason.SUSPENDED, 3),
        (Reason.INPUT_FAILED, 0),
    ],
)
def test_a_recovered_run_knows_the_launches_that_may_run_on(
    state: RunState, *, reason: Reason, launch: int
) -> None:
    attempts = [
        {"launch": 3, "attempt": 1, "reason": reason, "startTime": STARTED},
        {"launch": 4, "attempt": 2, "reason": "InputFailed"},
    ]
    state.begin_launch()
    state.accept_launch(launched(launch=5, attempt=3, attempts=attempts))
    assert state.unverified_launch == launch


def test_a_recovered_run_knows_how_often_it_was_disrupted(state: RunState) -> None:
    attempts = [
        {"launch": 3, "attempt": 1, "replaced": True, "reason": Reason.DISRUPTED},
        {"launch": 3, "attempt": 1, "replaced": True, "reason": Reason.QUEUED},
        {"launch": 3, "attempt": 1, "reason": Reason.NODE_LOST},
        {"launch": 4, "attempt": 1, "reason": Reason.INPUT_FAILED},
    ]
    state.begin_launch()
    state.accept_launch(launched(launch=5, attempt=2, attempts=attempts))
    assert state.disruptions == 2


def test_a_launch_that_was_suspended_before_it_ran_cannot_run_on(state: RunState) -> None:
    attempts = [{"launch": 3, "attempt": 1, "reason": Reason.SUSPENDED}]
    state.begin_launch()
    state.accept_launch(launched(launch=4, attempt=1, attempts=attempts))
    assert state.unverified_launch == 0


@pytest.mark.parametrize(
    "blocked", [LaunchState.WAITING, LaunchState.REFUSED, LaunchState.CANCELLED]
)
def test_a_recovered_run_knows_what_came_before_although_it_cannot_be_launched(
    blocked: LaunchState,
) -> None:
    """Its outcome says how many attempts there were, and is final only after the store was asked
    about the one that was lost."""
    attempts = [{"launch": 3, "attempt": 2, "reason": Reason.POD_LOST}]
    state = new_state()
    state.begin_launch()
    state.accept_launch(
        launched(state=blocked, job_name="", launch=4, attempt=2, attempts=attempts)
    )
    assert (
        state.progress.launch,
        state.outcome(FAILED, Phase.FAILED, Reason.PENDING_TIMEOUT).attempt,
    ) == (4, 2)
    assert state.must_verify(FAILED, is_final=True)


@pytest.mark.parametrize(
    "blocked", [LaunchState.WAITING, LaunchState.REFUSED, LaunchState.CANCELLED]
)
def test_a_result_without_progress_does_not_reset_that_of_the_run(
    state: RunState, blocked: LaunchState
) -> None:
    state.add_attempt(launched(), FAILED, Reason.INPUT_FAILED)
    state.next_launch(is_counted=True)
    before = state.progress
    state.begin_launch()
    state.accept_launch(launched(state=blocked, job_name=""))
    assert state.progress == before


def failed_after(completed: int) -> Verdict:
    return FAILED.model_copy(update={"records": RecordCounts(total=100, completed=completed)})


def test_the_count_of_attempts_is_kept_when_the_workflow_continues_as_new() -> None:
    run = RunInput(namespace=RUN.namespace, name=RUN.name, uid=RUN.uid, attempt=3)
    state = RunState(run)
    state.finish_launch(failed_after(10), now=NOW)
    assert state.continued().progress.counted_attempts == 1


@pytest.mark.parametrize("ahead", [-30, -5, 0, 5, 30])
def test_the_times_of_a_run_are_by_the_clock_of_the_cluster(ahead: int) -> None:
    """Temporal's clock is that far ahead."""
    state, second = RunState(RunInput(**RUN.model_dump())), timedelta(seconds=1)
    temporal = NOW + ahead * second
    state.set_clock(NOW, asked=temporal - second / 10, now=temporal + second / 10)
    assert abs(state.cluster_time(temporal) - NOW) <= second / 10


@pytest.mark.parametrize("ahead", [-30, 0, 30])
def test_an_answer_that_is_read_after_an_outage_does_not_move_the_clock(ahead: int) -> None:
    state, second = RunState(RunInput(**RUN.model_dump())), timedelta(seconds=1)
    temporal = NOW + ahead * second
    state.set_clock(NOW, asked=temporal, now=temporal)
    state.set_clock(NOW + 60 * second, asked=temporal + 50 * second, now=temporal + 3600 * second)
    assert state.cluster_time(temporal + 3600 * second) == NOW + 3600 * second

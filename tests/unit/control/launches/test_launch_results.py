"""The results of a launch, and the progress of a run that another workflow began."""

import pytest

from control.launches.launch_results import blocked, launched, lost_job, resume, seconds_left
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.snapshot import CompiledRun
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from tests.unit.objects import NOW, RUN, STARTED, Json, job, run, snapshot
from workflows.messages import LaunchInput, LaunchResult, LaunchState

ENDED: list[Json] = [
    {
        "launch": number,
        "attempt": 1,
        "startTime": "2026-11-21T07:00:00Z",
        "completionTime": "2026-11-21T07:00:30Z",
    }
    for number in (1, 2)
]


def launched_result(
    *,
    of: InferenceRun | None = None,
    found: Json | None = None,
    request: LaunchInput | None = None,
    is_recovered: bool = False,
    **limits: int,
) -> LaunchResult:
    """The result of a launch whose Job was created, or adopted by another workflow."""
    return launched(
        request or LaunchInput(run=RUN),
        of or run(),
        CompiledRun("inf-iris", "{}", snapshot(**limits)),
        found or job(),
        pod_shape="s",
        is_adopted=is_recovered,
        is_recovered=is_recovered,
        now=NOW,
    )


@pytest.mark.parametrize(
    ("spec", "used", "left"),
    [
        ({}, 10, None),
        ({"timeoutSeconds": 0}, 10, None),
        ({"timeoutSeconds": 60}, 10, 50),
        ({"timeoutSeconds": 5}, 10, 1),
    ],
)
def test_a_launch_gets_what_is_left_of_the_specs_timeout(
    *, spec: Json, used: float, left: int | None
) -> None:
    assert seconds_left(LaunchInput(run=RUN, seconds_used=used), run(**spec)) == left


def test_a_launched_job_has_the_limits_of_the_snapshot_and_the_timeout_of_the_spec() -> None:
    result = launched_result(of=run(timeoutSeconds=60), backoff_limit=7, pending_timeout_seconds=9)
    assert (result.state, result.job_name, result.job_uid) == (
        LaunchState.LAUNCHED,
        "inf-iris",
        "job-uid",
    )
    assert (result.backoff_limit, result.pending_timeout_seconds, result.timeout_seconds) == (
        7,
        9,
        60,
    )


@pytest.mark.parametrize(
    ("launch", "is_recovered", "since"),
    [(1, False, STARTED), (2, False, "2026-11-21T08:00:00Z"), (1, True, "2026-11-21T08:00:00Z")],
)
def test_the_first_launch_waits_since_the_runs_creation_and_others_since_the_jobs(
    *, launch: int, is_recovered: bool, since: str
) -> None:
    """So does a Job that another workflow created: the run may have been created suspended, and
    what it knew is lost."""
    result = launched_result(request=LaunchInput(run=RUN, launch=launch), is_recovered=is_recovered)
    assert result.pending_since == since


@pytest.mark.parametrize(("lost_at", "since"), [("07:30:00", "08:00:00"), ("11:00:05", "11:00:05")])
def test_a_launch_that_is_recovered_waits_since_its_last_pod_was_lost(
    lost_at: str, since: str
) -> None:
    """A Job that ran for hours must not fail with PendingTimeout because its next Pod waits for
    seconds."""
    lost = {"launch": 1, "attempt": 1, "replaced": True, "completionTime": f"2026-11-21T{lost_at}Z"}
    stored = run(status={"attempts": [lost]})
    request = LaunchInput(run=RUN, attempts=stored.status.attempts)
    result = launched_result(of=stored, request=request, is_recovered=True)
    assert result.pending_since == f"2026-11-21T{since}Z"


@pytest.mark.parametrize(
    ("is_retryable", "state"), [(True, LaunchState.WAITING), (False, LaunchState.REFUSED)]
)
def test_a_blocked_launch_waits_only_if_something_can_change(
    *, is_retryable: bool, state: LaunchState
) -> None:
    blocker = LaunchBlocked(Reason.CONFIG_NOT_FOUND, "missing", is_retryable=is_retryable)
    result = blocked(LaunchInput(run=RUN), run(), blocker, now=NOW)
    assert (result.state, result.reason, result.message) == (
        state,
        Reason.CONFIG_NOT_FOUND,
        "missing",
    )


@pytest.mark.parametrize(
    ("launch", "status", "since"),
    [
        (1, {}, STARTED),
        (1, {"phase": "Suspended"}, "2026-11-21T08:00:00Z"),
        (3, {"attempts": ENDED}, "2026-11-21T07:00:30Z"),
        (3, {"attempts": ENDED, "phase": "Suspended"}, "2026-11-21T08:00:00Z"),
        (3, {}, "2026-11-21T08:00:00Z"),
    ],
)
def test_a_workflow_that_knows_nothing_counts_the_wait_from_the_end_of_the_last_launch(
    *, launch: int, status: Json, since: str
) -> None:
    """A run that Temporal forgot must not fail with PendingTimeout because of the time for which it
    ran or was suspended."""
    blocker = LaunchBlocked(Reason.MODEL_NOT_READY, "it starts")
    stored = run(pendingTimeoutSeconds=600, status=status)
    request = LaunchInput(run=RUN, launch=launch, attempts=stored.status.attempts)
    result = blocked(request, stored, blocker, now=NOW)
    assert (result.pending_since, result.pending_timeout_seconds) == (since, 600)
    assert (result.launch, result.attempts) == (launch, stored.status.attempts)


def test_a_new_workflow_resumes_after_the_launches_in_the_status() -> None:
    resumed = resume(LaunchInput(run=RUN), run(status={"attempt": 2, "attempts": ENDED}))
    assert (resumed.launch, resumed.attempt, resumed.seconds_used) == (3, 2, 60)
    assert [item.launch for item in resumed.attempts] == [1, 2]


@pytest.mark.parametrize(("replaced", "launch"), [(None, 3), (True, 2)])
def test_a_launch_whose_pod_was_replaced_goes_on(*, replaced: bool | None, launch: int) -> None:
    listed = [ENDED[0], {**ENDED[1], "replaced": replaced}]
    resumed = resume(LaunchInput(run=RUN), run(status={"attempt": 1, "attempts": listed}))
    assert (resumed.launch, resumed.seconds_used) == (launch, 60)


def test_a_launch_that_ended_before_it_started_has_used_no_time() -> None:
    """By the clocks of two machines."""
    skewed = {**ENDED[1], "completionTime": "2026-11-21T06:59:50Z"}
    assert (
        resume(
            LaunchInput(run=RUN), run(status={"attempt": 1, "attempts": [ENDED[0], skewed]})
        ).seconds_used
        == 30
    )


def test_a_workflow_with_progress_of_its_own_is_not_resumed() -> None:
    request = LaunchInput(run=RUN, launch=3, seconds_used=5)
    assert resume(request, run(status={"attempt": 2, "attempts": ENDED})) == request


def test_a_workflow_from_an_older_backup_does_not_execute_an_ended_launch_again() -> None:
    status = {
        "attempt": 2,
        "attempts": ENDED,
        "endedLaunches": 2,
        "secondsUsed": 60,
        "startTime": STARTED,
    }
    resumed = resume(LaunchInput(run=RUN, launch=2, seconds_used=30), run(status=status))
    assert (resumed.launch, resumed.attempt, resumed.seconds_used) == (3, 2, 60)


def test_launches_that_the_status_no_longer_lists_count_as_well() -> None:
    status = {
        "attempt": 9,
        "attempts": ENDED,
        "endedLaunches": 30,
        "secondsUsed": 4000,
        "startTime": STARTED,
    }
    resumed = resume(LaunchInput(run=RUN), run(status=status))
    assert (resumed.launch, resumed.attempt, resumed.seconds_used) == (31, 9, 4000)
    assert resumed.first_started_at == STARTED


def test_attempts_that_do_not_count_are_known_to_a_workflow_that_takes_over() -> None:
    """They committed records, so the limit of retries begins anew after each of them."""
    status = {
        "attempt": 9,
        "attempts": ENDED,
        "endedLaunches": 8,
        "uncountedAttempts": 7,
        "committedRecords": 300,
    }
    resumed = resume(LaunchInput(run=RUN), run(status=status))
    assert (resumed.attempt, resumed.uncounted, resumed.counted_attempts) == (9, 7, 2)
    assert resumed.committed == 300


def test_the_time_of_a_job_that_is_gone_counts_from_its_start_in_the_status() -> None:
    """A workflow was lost between a stop and the record."""
    stored = run(status={"phase": "Running", "runningSince": STARTED}, timeoutSeconds=60)
    lost = lost_job("inf-iris", "job-uid", run=stored, now=NOW)
    started = [
        launched_result(of=stored, found=one, is_recovered=True).started_at for one in (lost, job())
    ]
    assert started == [STARTED, None]

"""When the Events of a Job that waits are read."""

import pytest

from activities.rules.observation import Launch
from tests.unit.launches import JOB_NAME, JOB_UID
from tests.unit.objects import RUN
from worker.observer.job_state import EVENTS_FIRST_SECONDS, EVENTS_POSTPONED_SECONDS, NEVER, JobState


@pytest.fixture
def state() -> JobState:
    return JobState(
        Launch(RUN, job_name=JOB_NAME, job_uid=JOB_UID, launch=1, attempt=1, has_clock=False, is_builtin=True)
    )


def change(state: JobState, *, count: int, since: float) -> float:
    """Change the Job twice a second, and return when."""
    for number in range(count):
        state.observe_version((f"{since}-{number}",), now=since + number / 2)
    return since + (count - 1) / 2


def test_a_change_puts_off_the_read_of_events(state: JobState) -> None:
    last = change(state, count=3, since=100.0)
    assert state.events_due == last + EVENTS_FIRST_SECONDS


def test_a_job_that_changes_all_the_time_has_its_events_read(state: JobState) -> None:
    change(state, count=100, since=100.0)
    assert state.events_due == 100.0 + EVENTS_POSTPONED_SECONDS
    state.receive_events((), now=150.0)
    change(state, count=100, since=151.0)
    assert state.events_due == 151.0 + EVENTS_POSTPONED_SECONDS


def test_a_job_that_needs_no_events_starts_anew(state: JobState) -> None:
    change(state, count=3, since=100.0)
    state.expect_no_events()
    assert state.events_due == NEVER
    change(state, count=1, since=900.0)
    assert state.events_due == 900.0 + EVENTS_FIRST_SECONDS

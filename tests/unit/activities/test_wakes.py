"""From when on reads serve a launch."""

from activities.cluster.wakes import LIMIT, SHARED_SECONDS, Wakes
from workflows.messages import Woken

IRIS = Woken(cause="InferenceService models/iris 7", generation=1)


def test_launches_that_were_woken_for_the_same_cause_share_what_was_read_since_the_first_of_them() -> None:
    wakes = Wakes()
    assert wakes.since(IRIS, seen_at=None, now=100) == 100
    assert wakes.since(IRIS, seen_at=None, now=110) == 100
    assert wakes.since(IRIS, seen_at=None, now=105 + SHARED_SECONDS) == 105


def test_without_a_known_cause_everything_is_read_anew() -> None:
    wakes = Wakes()
    wakes.since(IRIS, seen_at=None, now=100)
    for woken in (None, Woken(generation=3), Woken(cause="InferenceService models/iris 8")):
        assert wakes.since(woken, seen_at=None, now=110) == 110


def test_a_new_run_needs_what_was_read_since_it_was_seen() -> None:
    wakes = Wakes()
    assert wakes.since(None, seen_at=98, now=100) == 98
    assert wakes.since(None, seen_at=98, now=1000) == 1000 - SHARED_SECONDS


def test_a_cause_that_was_forgotten_is_heard_of_anew() -> None:
    wakes = Wakes()
    wakes.since(IRIS, seen_at=None, now=100)
    for number in range(LIMIT):
        wakes.since(Woken(cause=str(number)), seen_at=None, now=100)
    assert wakes.since(IRIS, seen_at=None, now=101) == 101

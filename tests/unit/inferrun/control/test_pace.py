"""A crowd begins a few at once, and then so many per second."""

import pytest

from inferrun.control.pace import MAX_GROUPS, Pace


def test_a_few_begin_at_once_and_the_others_one_after_the_other() -> None:
    pace = Pace(burst=3, per_second=10)
    assert [round(pace.wait_seconds("a", now=100.0), 3) for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]


def test_a_group_does_not_wait_for_another_one() -> None:
    pace = Pace(burst=1, per_second=1)
    for _ in range(50):
        pace.wait_seconds("crowd", now=100.0)
    assert pace.wait_seconds("other", now=100.0) == 0


def test_what_is_not_used_is_not_saved_up() -> None:
    pace = Pace(burst=2, per_second=1)
    pace.wait_seconds("a", now=0.0)
    assert [pace.wait_seconds("a", now=1000.0) for _ in range(4)] == [0, 0, 1, 2]


def test_all_of_a_crowd_begin_at_the_promised_rate() -> None:
    pace = Pace(burst=4, per_second=5)
    begins = [now + pace.wait_seconds("a", now=now) for now in (number / 100 for number in range(300))]
    assert begins == sorted(begins)
    assert begins[-1] == pytest.approx(299 / 5 - 3 / 5, abs=0.1)


def test_groups_that_have_nothing_to_wait_for_are_forgotten() -> None:
    pace = Pace(burst=1, per_second=1)
    for number in range(MAX_GROUPS):
        pace.wait_seconds(f"group-{number}", now=0.0)
    pace.wait_seconds("crowd", now=0.5)
    assert pace.wait_seconds("crowd", now=100.0) == 0
    assert len(pace._free) == 1

"""Who may take a lease, decided without comparing clocks of different machines."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from control.lease_record import Candidate, LeaseRecord, LeaseTiming, next_term, timestamp

NOW = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
HELD = LeaseRecord(holder="other", acquired="2099-01-01T00:00:00.000000Z", duration=8, transitions=4)
US = Candidate(identity="us")


def wait(candidate: Candidate, record: LeaseRecord, *, unchanged: float = 0.0) -> float:
    return candidate.wait_for(record, unchanged=unchanged, duration=8)


@pytest.mark.parametrize(("unchanged", "expected"), [(0.0, 8.0), (7.5, 0.5), (8.0, 0.0), (100.0, 0.0)])
def test_another_holders_lease_is_free_once_its_record_has_not_changed_for_its_duration(
    unchanged: float, expected: float
) -> None:
    assert wait(US, HELD, unchanged=unchanged) == expected


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
def test_the_holders_clock_does_not_matter(renewed: str) -> None:
    assert wait(US, replace(HELD, renewed=renewed), unchanged=3) == 5


def test_the_holders_own_duration_counts() -> None:
    assert wait(US, replace(HELD, duration=15), unchanged=8) == 7


def test_a_record_without_a_duration_has_the_default() -> None:
    assert wait(US, replace(HELD, duration=0), unchanged=1) == 7


def test_a_released_lease_is_free() -> None:
    assert wait(US, replace(HELD, holder="")) == 0


def test_a_restarted_holder_takes_its_lease_at_once() -> None:
    assert wait(US, replace(HELD, holder="us")) == 0


def test_a_process_takes_its_own_term_again_at_once() -> None:
    assert wait(Candidate(identity="us", term=HELD.acquired, is_new=False), replace(HELD, holder="us")) == 0


def test_another_process_with_the_same_identity_has_to_be_waited_for() -> None:
    assert wait(Candidate(identity="us", term="earlier", is_new=False), replace(HELD, holder="us")) == 8


def test_a_term_begins_now_and_counts_changes_of_the_holder() -> None:
    term = next_term(HELD, identity="us", duration=8, now=NOW)
    assert term == LeaseRecord(
        holder="us", acquired=timestamp(NOW), renewed="2026-01-02T03:04:05.000006Z", duration=8, transitions=5
    )
    assert next_term(term, identity="us", duration=8, now=NOW).transitions == 5


def test_a_record_is_read_as_it_is_written() -> None:
    assert LeaseRecord.of({"spec": HELD.to_spec()}) == HELD
    assert LeaseRecord.of({}) == LeaseRecord.of({"spec": LeaseRecord().to_spec()}) == LeaseRecord()


@pytest.mark.parametrize(("renew", "give_up"), [(5, 5), (6, 5), (2, 7), (2, 8)])
def test_a_timing_that_would_allow_two_leaders_is_rejected(renew: float, give_up: float) -> None:
    with pytest.raises(ValueError, match="renew < give_up < duration"):
        LeaseTiming(renew=renew, give_up=give_up)

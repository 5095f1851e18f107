"""Properties of the limit, whatever is observed, and its reactions to rejections and timeouts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from inferrun_runner.sending.concurrency import ConcurrencyLimit, Ticket

MAXIMUM = 64
EVENTS = ("succeeded", "rejected", "timed out", "lost", "grown")


@settings(max_examples=150)
@given(
    st.integers(1, 2 * MAXIMUM),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 1000)), max_size=400),
)
def test_the_limit_stays_within_its_bounds_and_rises_only_by_growing(
    start: int, events: list[tuple[str, int]]
) -> None:
    limit = ConcurrencyLimit(start=start, maximum=MAXIMUM)
    sent: list[Ticket] = []
    for event, number in events:
        before = limit.number
        while len(sent) < limit.number:
            sent.append(limit.ticket(len(sent) + 1))
        ticket = sent.pop(number % len(sent))
        match event:
            case "succeeded":
                limit.measured(ticket, records=1 + number % 7, seconds=number / 1000)
            case "rejected":
                limit.rejected(ticket)
            case "timed out":
                limit.timed_out(ticket)
            case "grown":
                limit.grow()
                before += 1
        assert 1 <= limit.number <= min(before, MAXIMUM)


def limit_of(start: int) -> ConcurrencyLimit:
    return ConcurrencyLimit(start=start, maximum=MAXIMUM)


def test_rejections_in_a_row_lower_the_limit_below_the_requests_in_flight() -> None:
    limit = limit_of(8)
    seen = [(limit.rejected(limit.ticket(8)), limit.number) for _ in range(5)]
    assert seen == [*[(False, 8)] * 4, (False, 7)]


def test_rejections_of_requests_that_were_sent_before_the_limit_fell_do_not_lower_it_again() -> (
    None
):
    limit = limit_of(8)
    tickets = [limit.ticket(8) for _ in range(8)]
    for ticket in tickets:
        limit.rejected(ticket)
    assert limit.number == 7


def test_rejections_of_one_request_in_five_are_faults() -> None:
    limit = limit_of(8)
    for _ in range(100):
        limit.rejected(limit.ticket(8))
        for _ in range(4):
            limit.ticket(8)
    assert limit.number == 8


def test_the_limit_does_not_rise_after_a_rejection_until_others_are_sent() -> None:
    limit = limit_of(4)
    for _ in range(16):
        limit.measured(limit.ticket(4), records=1, seconds=0.1)
    limit.rejected(limit.ticket(4))
    limit.grow()
    assert (limit.number, limit.may_grow) == (4, True)
    limit.ticket(4)
    limit.ticket(4)
    limit.grow()
    assert limit.number == 5


def test_if_a_single_request_is_rejected_nothing_should_be_sent_for_a_while() -> None:
    limit = limit_of(1)
    assert limit.rejected(limit.ticket(1)) is True
    assert limit.number == 1


def test_timeouts_of_the_same_level_halve_the_limit_once() -> None:
    limit = limit_of(8)
    tickets = [limit.ticket(number) for number in range(1, 9)]
    for ticket in tickets:
        limit.timed_out(ticket)
    assert limit.number == 4

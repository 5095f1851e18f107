"""Properties of the limit, whatever is observed, and its reactions to single rejections and timeouts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.concurrency.adaptive import AdaptiveLimit
from runner.concurrency.limit import FixedLimit, Ticket, pause_for

MAXIMUM = 64
EVENTS = ("succeeded", "rejected", "timed out", "lost", "grown")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(1, 2 * MAXIMUM), st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 1000)), max_size=400))
def test_the_limit_stays_within_its_bounds_and_rises_only_by_growing(start: int, events: list[tuple[str, int]]) -> None:
    limit = AdaptiveLimit(start=start, maximum=MAXIMUM)
    sent: list[Ticket] = []
    for event, number in events:
        before = limit.number
        while len(sent) < limit.number:
            sent.append(limit.ticket(len(sent) + 1))
        ticket = sent.pop(number % len(sent))
        match event:
            case "succeeded":
                limit.accepted(ticket)
                limit.measured(ticket, records=1 + number % 7, seconds=number / 1000)
            case "rejected":
                limit.rejected(ticket)
            case "timed out":
                limit.timed_out(ticket)
            case "grown":
                limit.grow()
                before += 1
        assert 1 <= limit.number <= min(before, MAXIMUM)


def adaptive(start: int) -> AdaptiveLimit:
    return AdaptiveLimit(start=start, maximum=MAXIMUM)


def test_the_first_rejection_stops_the_growth_and_the_next_one_lowers_the_limit_below_the_requests_in_flight() -> None:
    limit = adaptive(8)
    tickets = [limit.ticket(number) for number in range(1, 9)]
    assert limit.rejected(tickets[6]) is False
    assert limit.number == 7
    assert limit.rejected(limit.ticket(7)) is False
    assert limit.number == 6
    assert limit.rejected(tickets[7]) is False
    assert limit.number == 6


def test_a_rejection_without_another_one_is_a_fault() -> None:
    limit = adaptive(8)
    limit.rejected(limit.ticket(7))
    assert (limit.number, limit.may_grow) == (7, True)
    for _ in range(7):
        limit.grow()
    assert limit.number == 8


def test_if_a_single_request_is_rejected_nothing_should_be_sent_for_a_while() -> None:
    limit = adaptive(1)
    assert limit.rejected(limit.ticket(1)) is True
    assert limit.number == 1


def test_timeouts_of_the_same_level_halve_the_limit_once() -> None:
    limit = adaptive(8)
    tickets = [limit.ticket(number) for number in range(1, 9)]
    for ticket in tickets:
        limit.timed_out(ticket)
    assert limit.number == 4


def test_a_fixed_limit_is_not_changed_by_what_happens() -> None:
    limit = FixedLimit(3)
    ticket = limit.ticket(3)
    limit.accepted(ticket)
    limit.measured(ticket, records=1, seconds=1.0)
    limit.timed_out(ticket)
    assert limit.rejected(limit.ticket(1)) is False
    assert (limit.number, limit.may_grow) == (3, False)


def test_a_fixed_limit_with_a_start_rises_with_each_success() -> None:
    limit, seen = FixedLimit(3, start=1), list[int]()
    for _ in range(4):
        seen.append(limit.number)
        limit.accepted(limit.ticket(1))
    assert seen == [1, 2, 3, 3]


def test_the_pause_between_two_raises_follows_the_time_of_a_request() -> None:
    assert [pause_for(seconds) for seconds in (0.001, 0.16, 30.0)] == [0.002, 0.01, 0.05]

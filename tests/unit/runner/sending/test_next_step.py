"""What follows a failed request: which batches are sent again, divided or sent alone, and which records are blamed."""

import pytest

from inferrun.formats.record_errors import NOT_SENT
from inferrun.plugins import Batch, Fault, FaultKind, InferenceError, RecordError
from runner.sending.next_step import NextStep, Part, Server, next_step
from tests.unit.runner.batches import batch, decoded, results

ONE, TWO = batch([1]), batch([1, 2])
DOUBTFUL = (FaultKind.INVALID, FaultKind.SERVER_ERROR)
UNSENT = RecordError(NOT_SENT, "the record was not sent")


class Requests:
    """One batch, and requests of others around it. Time passes with each step."""

    def __init__(self, sent: Batch = ONE, *, retry_seconds: float = 60.0, has_example: bool = True) -> None:
        self.server = Server(retry_seconds=retry_seconds)
        self.now = 0.0
        if has_example:
            self.answer(started=0.0)
        self.part = Part(sent, self.server)

    def answer(self, *, started: float | None = None) -> None:
        """Another request is answered, which was sent now, or before."""
        self.now += 1
        self.server.answer(batch([7], first=70), results([7]), started=self.now - 0.5 if started is None else started)

    def fail(
        self,
        kind: FaultKind,
        *,
        was_sent: bool = True,
        retry_after: float | None = None,
        is_after_example: bool = False,
    ) -> None:
        self.now += 1
        fault = Fault(InferenceError("test"), kind=kind, was_sent=was_sent, retry_after=retry_after)
        if kind is FaultKind.LOST and self.server.cut_off_at is None:
            self.server.cut_off_at = self.now
        self.part.fail(fault, now=self.now, is_after_example=is_after_example, first_wait=0.5)

    @property
    def needs_example(self) -> bool:
        return self.part.needed_example is not None

    def step(self) -> NextStep:
        return next_step(self.part)


@pytest.mark.parametrize(
    ("sent", "kind", "step"),
    [
        *((TWO, kind, NextStep.DIVIDE) for kind in (FaultKind.REJECTED, FaultKind.TOO_LARGE, *DOUBTFUL)),
        *((ONE, kind, NextStep.BLAME) for kind in (FaultKind.REJECTED, FaultKind.TOO_LARGE)),
        (ONE, FaultKind.FAILED, NextStep.FAIL),
    ],
)
def test_a_batch_that_fails_for_a_reason_of_its_own_is_divided_until_a_record_is_blamed(
    sent: Batch, kind: FaultKind, step: NextStep
) -> None:
    requests = Requests(sent, has_example=step is not NextStep.BLAME)
    requests.fail(kind)
    assert requests.step() is step


@pytest.mark.parametrize("kind", DOUBTFUL)
def test_an_invalid_response_is_blamed_on_a_record_only_after_another_one_had_a_valid_one(kind: FaultKind) -> None:
    requests = Requests()
    requests.fail(kind)
    assert (requests.step(), requests.needs_example) == (NextStep.SEND, True)
    requests.fail(FaultKind.UNAVAILABLE, was_sent=False)  # the example has no valid response, either
    assert (requests.step(), requests.needs_example) == (NextStep.SEND, True)
    requests.fail(kind, is_after_example=True)
    assert requests.step() is NextStep.BLAME


def test_before_there_is_a_valid_response_the_other_parts_of_the_batch_are_sent_first() -> None:
    requests = Requests(has_example=False)
    requests.fail(FaultKind.INVALID)
    assert (requests.step(), requests.needs_example, requests.server.is_broken) == (
        NextStep.SEND_LATER,
        False,
        False,
    )
    for _ in range(15):
        requests.fail(FaultKind.INVALID)
    assert requests.server.is_broken
    assert requests.step() is NextStep.FAIL  # ten seconds have passed


def test_records_that_have_valid_responses_only_alone_are_counted_until_several_have_one_together() -> None:
    server = Server(retry_seconds=60)
    assert not any(server.add_paired() for _ in range(7))
    server.answer(ONE, results([1]), started=0.0)
    assert server.add_paired()
    server.answer(TWO, results([1, 2]), started=0.0)
    assert not server.add_paired()


def test_the_example_is_the_first_record_that_was_sent_and_had_a_valid_response() -> None:
    server = Server(retry_seconds=60)
    server.answer(TWO, results([UNSENT, UNSENT]), started=0.0)
    assert server.example is None
    server.answer(batch([5, 6], first=40), results([UNSENT, 6]), started=0.0)
    server.answer(ONE, results([1]), started=0.0)
    assert server.example is not None
    assert (server.example.first, decoded(server.example)) == (41, [6])


def test_a_batch_that_is_lost_twice_with_everything_in_flight_is_sent_alone() -> None:
    requests = Requests()
    for expected in (NextStep.SEND, NextStep.SEND_ALONE):
        requests.answer()
        requests.fail(FaultKind.LOST)
        assert requests.step() is expected


def test_losses_while_others_were_answered_have_to_be_more() -> None:
    requests = Requests()
    for expected in (NextStep.SEND, NextStep.SEND, NextStep.SEND, NextStep.SEND_ALONE):
        requests.answer()
        requests.fail(FaultKind.LOST)
        requests.answer(started=requests.now - 0.5)
        assert requests.step() is expected


@pytest.mark.parametrize("kind", [FaultKind.LOST, FaultKind.UNAVAILABLE, FaultKind.BUSY])
def test_a_server_that_answers_nothing_is_down(kind: FaultKind) -> None:
    requests = Requests()
    for number in range(20):
        requests.fail(kind)  # the first loss may be one of a connection only
        assert (requests.step(), requests.needs_example) == (NextStep.SEND, number > 0)
    requests.now += 1000
    requests.fail(kind)
    assert requests.step() is NextStep.FAIL


@pytest.mark.parametrize(
    ("kind", "was_sent", "retry_after"),
    [(FaultKind.UNAVAILABLE, False, None), (FaultKind.BUSY, True, 1.0), (FaultKind.TIMEOUT, True, None)],
)
def test_other_failures_say_nothing_about_the_records(
    kind: FaultKind,
    was_sent: bool,  # noqa: FBT001  a parameter
    retry_after: float | None,
) -> None:
    requests = Requests()
    for _ in range(10):
        requests.answer()
        requests.fail(kind, was_sent=was_sent, retry_after=retry_after)
        assert (requests.step(), requests.needs_example) == (NextStep.SEND, False)


@pytest.mark.parametrize("kind", [FaultKind.BUSY, FaultKind.TIMEOUT])
def test_overload_and_timeouts_are_suspicious_only_if_retries_do_not_help(kind: FaultKind) -> None:
    requests = Requests()
    for _ in range(10):
        requests.answer()
        requests.fail(kind)
        assert requests.step() is NextStep.SEND
    requests.now += 60
    requests.answer()
    requests.fail(kind)
    assert requests.step() is NextStep.SEND_ALONE


def test_a_server_that_restarts_is_waited_for_ten_times_as_long() -> None:
    requests = Requests()
    requests.fail(FaultKind.LOST)
    requests.now += 500
    requests.fail(FaultKind.UNAVAILABLE, was_sent=False)
    assert requests.step() is NextStep.SEND
    requests.now += 100
    requests.fail(FaultKind.UNAVAILABLE, was_sent=False)
    assert requests.step() is NextStep.FAIL


def test_a_response_to_a_request_that_was_sent_before_does_not_say_that_the_server_is_back() -> None:
    requests = Requests()
    requests.fail(FaultKind.LOST)
    lost_at = requests.now
    requests.answer(started=lost_at - 0.5)
    assert requests.server.cut_off_at == lost_at
    requests.answer()
    assert requests.server.cut_off_at is None


@pytest.mark.parametrize(
    ("sent", "kind", "expected"),
    [
        (ONE, FaultKind.LOST, NextStep.SEND_ALONE),
        (TWO, FaultKind.BUSY, NextStep.SEND_ALONE),
        (ONE, FaultKind.BUSY, NextStep.FAIL),
    ],
)
def test_before_any_response_a_server_that_ends_or_is_behind_a_proxy_is_asked_for_single_records(
    sent: Batch, kind: FaultKind, expected: NextStep
) -> None:
    requests = Requests(sent, has_example=False)
    requests.fail(kind)
    assert requests.step() is NextStep.SEND
    requests.now += 60
    requests.fail(kind)
    assert requests.step() is expected


def test_without_time_for_retries_the_attempt_ends() -> None:
    requests = Requests(retry_seconds=0)
    requests.fail(FaultKind.TIMEOUT)
    assert requests.step() is NextStep.FAIL


@pytest.mark.parametrize(("was_up", "losses"), [(False, 3), (True, 7)])
def test_a_record_that_is_lost_alone_is_blamed_later_if_the_server_was_not_away(
    was_up: bool,  # noqa: FBT001  a parameter
    losses: int,
) -> None:
    requests = Requests()
    requests.part.begin(is_alone=True)
    requests.part.was_up = was_up
    for number in range(1, losses + 1):
        requests.fail(FaultKind.LOST)
        assert requests.step() is (NextStep.BLAME if number == losses else NextStep.SEND)


@pytest.mark.parametrize(("was_sent", "retry_after"), [(True, 1.0), (False, None)])
def test_a_record_alone_is_not_blamed_for_what_is_no_loss(
    was_sent: bool,  # noqa: FBT001  a parameter
    retry_after: float | None,
) -> None:
    requests = Requests()
    requests.part.begin(is_alone=True)
    for _ in range(2):
        requests.fail(FaultKind.LOST)
        assert requests.step() is NextStep.SEND
        for _ in range(5):
            requests.fail(FaultKind.UNAVAILABLE, was_sent=was_sent, retry_after=retry_after)
            assert requests.step() is NextStep.SEND
    requests.fail(FaultKind.LOST)
    assert requests.step() is NextStep.BLAME


@pytest.mark.parametrize(("third", "losses"), [(FaultKind.TIMEOUT, 3), (FaultKind.UNAVAILABLE, 7)])
def test_three_losses_of_a_server_that_is_up_are_enough_only_if_all_are_timeouts(third: FaultKind, losses: int) -> None:
    requests = Requests()
    requests.part.begin(is_alone=True)
    requests.part.was_up = True
    for number in range(1, losses + 1):
        requests.fail(third if number == 3 else FaultKind.TIMEOUT)
        assert requests.step() is (NextStep.BLAME if number == losses else NextStep.SEND)


def test_a_batch_that_is_lost_alone_is_divided() -> None:
    requests = Requests(TWO)
    requests.part.begin(is_alone=True)
    requests.fail(FaultKind.UNAVAILABLE)
    assert requests.step() is NextStep.DIVIDE

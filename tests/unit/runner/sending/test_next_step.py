"""What follows a failed request: which batches are sent again, divided or sent alone, and which
records are blamed."""

from collections.abc import Callable

import pytest

from inferrun.formats.record_errors import NOT_SENT
from inferrun.plugins import Batch, Fault, FaultKind, InferenceError, RecordError
from inferrun_runner.sending.next_step import BatchPart, NextStep, Server, next_step
from tests.unit.runner.batches import batch, decoded, results

ONE, TWO = batch([1]), batch([1, 2])
DOUBTFUL = (FaultKind.INVALID, FaultKind.SERVER_ERROR)
UNSENT = RecordError(NOT_SENT, "the record was not sent")


class Requests:
    """One batch, and requests of others around it. Time passes with each step."""

    def __init__(
        self, sent: Batch = ONE, *, retry_seconds: float = 60.0, has_example: bool = True
    ) -> None:
        self.server = Server(retry_seconds=retry_seconds)
        self.now = 0.0
        if has_example:
            self.answer(started=0.0)
        self.part = BatchPart(sent, self.server)

    def answer(self, *, started: float | None = None) -> None:
        """Another request is answered, which was sent now, or before."""
        self.now += 1
        self.server.answer(
            batch([7], first=70),
            results([7]),
            started=self.now - 0.5 if started is None else started,
        )

    def fail(
        self,
        kind: FaultKind,
        *,
        was_sent: bool = True,
        retry_after: float | None = None,
        is_after_example: bool = False,
        has_results: bool = False,
    ) -> None:
        self.part.sent_at = self.now
        self.now += 1
        instead = results([None]) if has_results else None
        fault = Fault(
            InferenceError("test"),
            kind=kind,
            was_sent=was_sent,
            retry_after=retry_after,
            results=instead,
        )
        if kind is FaultKind.LOST and self.server.cut_off_at is None:
            self.server.cut_off_at = self.now
        self.part.fail(fault, now=self.now, is_after_example=is_after_example, first_wait=0.5)


Event = Callable[[Requests], object]


def fails(
    kind: FaultKind,
    *,
    was_sent: bool = True,
    retry_after: float | None = None,
    example: bool = False,
) -> Event:
    return lambda one: one.fail(
        kind, was_sent=was_sent, retry_after=retry_after, is_after_example=example
    )


def is_not_served(one: Requests) -> None:
    """By a protocol whose requests name the model."""
    one.fail(FaultKind.NOT_SERVED, has_results=True)


def passes(seconds: float) -> Event:
    return lambda one: setattr(one, "now", one.now + seconds)


def is_alone(one: Requests) -> None:
    one.part.begin(is_alone=True)


def was_up(one: Requests) -> None:
    one.part.was_up = True


def needs_example(one: Requests) -> None:
    assert one.part.needed_example is not None


def needs_none(one: Requests) -> None:
    assert one.part.needed_example is None


def answers_an_earlier_one(one: Requests) -> None:
    one.answer(started=one.now - 0.5)


def step(expected: NextStep) -> Event:
    def check(one: Requests) -> None:
        assert next_step(one.part) is expected

    return check


def another_fails(kind: FaultKind, *, seconds: float) -> Event:
    """Another request fails so long after the latest failure, before which it was sent."""

    def fail(one: Requests) -> None:
        other = BatchPart(batch([5], first=50), one.server)
        other.sent_at = one.now - 0.1
        fault = Fault(InferenceError("test"), kind=kind)
        other.fail(fault, now=one.now + seconds, is_after_example=False, first_wait=0.5)

    return fail


def confirms(one: Requests) -> None:
    one.server.blame(is_confirmed=True)


def contradicts(one: Requests) -> None:
    one.server.contradict()


def confirm(one: Requests) -> None:
    step(NextStep.CONFIRM)(one)
    one.part.is_to_confirm = True


CONFIRM: Event = confirm
SEND, ALONE, DIVIDE = step(NextStep.SEND), step(NextStep.SEND_ALONE), step(NextStep.DIVIDE)
BLAME, FAIL = step(NextStep.BLAME), step(NextStep.FAIL)
ANSWERS = Requests.answer
LOST, TIMES_OUT, BUSY = fails(FaultKind.LOST), fails(FaultKind.TIMEOUT), fails(FaultKind.BUSY)
AWAY = fails(FaultKind.UNAVAILABLE, was_sent=False)
NOT_SERVED, DENIED = fails(FaultKind.NOT_SERVED), fails(FaultKind.DENIED)
ASKS_TO_WAIT = fails(FaultKind.BUSY, retry_after=1.0)
BLAMED_ALONE = {"is not blamed for a server that is away": AWAY}

CASES: dict[str, tuple[Requests, list[Event]]] = {
    **{
        f"{kind} divides a batch of several records": (Requests(TWO), [fails(kind), DIVIDE])
        for kind in (FaultKind.REJECTED, FaultKind.TOO_LARGE, *DOUBTFUL)
    },
    **{
        f"{kind} is the fault of the record": (Requests(has_example=False), [fails(kind), BLAME])
        for kind in (FaultKind.REJECTED, FaultKind.TOO_LARGE)
    },
    "a request that cannot succeed ends the attempt": (Requests(), [fails(FaultKind.FAILED), FAIL]),
    **{
        f"{kind} is blamed on a record only after another one had a valid response": (
            Requests(),
            [
                *(fails(kind), CONFIRM, needs_example),
                *(AWAY, SEND, needs_example),  # the example has no valid response, either
                *(fails(kind, example=True), BLAME),
            ],
        )
        for kind in DOUBTFUL
    },
    **{
        f"{kind} of a record is confirmed if another request fails at the same time": (
            Requests(has_example=False),
            [
                *(fails(kind), another_fails(kind, seconds=0.5)),
                *(CONFIRM, needs_none, fails(kind), BLAME),
            ],
        )
        for kind in (FaultKind.REJECTED, FaultKind.TOO_LARGE)
    },
    **{
        f"{kind} is the fault of the record if others failed {what}": (
            Requests(),
            [fails(kind), other, BLAME],
        )
        for kind in (FaultKind.REJECTED, FaultKind.TOO_LARGE)
        for what, other in {
            "long after it": another_fails(kind, seconds=2.5),
            "in another way": another_fails(FaultKind.INVALID, seconds=0.5),
        }.items()
    },
    "if many failed alone as before, a shared failure is believed": (
        Requests(),
        [
            *[confirms] * 33,
            fails(FaultKind.REJECTED),
            another_fails(FaultKind.REJECTED, seconds=0.5),
            BLAME,
        ],
    ),
    "once one was answered alone that had failed, no shared failure is believed": (
        Requests(),
        [
            *[confirms] * 33,
            contradicts,
            fails(FaultKind.REJECTED),
            another_fails(FaultKind.REJECTED, seconds=0.5),
            CONFIRM,
        ],
    ),
    "a model that is away is waited for": (
        Requests(),
        [*[NOT_SERVED, SEND, needs_none] * 5, ANSWERS, NOT_SERVED, CONFIRM, needs_example],
    ),
    "a model that is away for good ends the attempt": (
        Requests(),
        [NOT_SERVED, SEND, passes(60), NOT_SERVED, CONFIRM, needs_example, AWAY, FAIL],
    ),
    "a record is blamed for naming another model right after the example was answered": (
        Requests(),
        [
            NOT_SERVED,
            SEND,
            ANSWERS,
            NOT_SERVED,
            CONFIRM,
            needs_example,
            fails(FaultKind.NOT_SERVED, example=True),
            BLAME,
        ],
    ),
    "before any response a model that is not served ends the attempt in the end": (
        Requests(has_example=False),
        [*[is_not_served, SEND] * 9, passes(60), is_not_served, FAIL],
    ),
    "before any response an address that is not served ends the attempt": (
        Requests(has_example=False),
        [NOT_SERVED, FAIL],
    ),
    "before any response a server that denies access ends the attempt": (
        Requests(has_example=False),
        [DENIED, FAIL],
    ),
    "later it is sent again": (Requests(), [DENIED, SEND, ANSWERS, DENIED, CONFIRM]),
    "a batch that is lost twice with everything in flight is sent alone": (
        Requests(),
        [ANSWERS, LOST, SEND, ANSWERS, LOST, ALONE],
    ),
    "losses while others were answered have to be more": (
        Requests(),
        [
            *[ANSWERS, LOST, answers_an_earlier_one, SEND] * 3,
            ANSWERS,
            LOST,
            answers_an_earlier_one,
            ALONE,
        ],
    ),
    **{
        f"a server that answers nothing but {kind} is down": (
            Requests(),
            [
                *(fails(kind), SEND, needs_none),  # the first loss may be one of a connection only
                *[fails(kind), SEND, needs_example] * 19,
                *(passes(1000), fails(kind), FAIL),
            ],
        )
        for kind in (FaultKind.LOST, FaultKind.UNAVAILABLE, FaultKind.BUSY)
    },
    **{
        f"failures {at} say nothing about the records": (
            Requests(),
            [ANSWERS, event, SEND, needs_none] * 10,
        )
        for at, event in enumerate((AWAY, ASKS_TO_WAIT, TIMES_OUT))
    },
    **{
        f"failures {at} are suspicious only if retries do not help": (
            Requests(),
            [*[ANSWERS, event, SEND] * 10, passes(60), ANSWERS, event, ALONE],
        )
        for at, event in enumerate((BUSY, TIMES_OUT))
    },
    "a server that restarts is waited for ten times as long": (
        Requests(),
        [LOST, passes(500), AWAY, SEND, passes(100), AWAY, FAIL],
    ),
    "before any response a server that ends is asked for single records": (
        Requests(has_example=False),
        [LOST, SEND, passes(60), LOST, ALONE],
    ),
    "before any response a server behind a proxy is asked for single records": (
        Requests(TWO, has_example=False),
        [BUSY, SEND, passes(60), BUSY, ALONE],
    ),
    "before any response an overload without an end ends the attempt": (
        Requests(has_example=False),
        [BUSY, SEND, passes(60), BUSY, FAIL],
    ),
    "without time for retries the attempt ends": (Requests(retry_seconds=0), [TIMES_OUT, FAIL]),
    "a record that is lost alone three times is blamed": (
        Requests(),
        [is_alone, *[LOST, SEND] * 2, LOST, BLAME],
    ),
    "it is blamed later if the server was not away": (
        Requests(),
        [is_alone, was_up, *[LOST, SEND] * 6, LOST, BLAME],
    ),
    **{
        f"a record alone {what}": (
            Requests(),
            [is_alone, *[LOST, SEND, *[event, SEND] * 5] * 2, LOST, BLAME],
        )
        for what, event in BLAMED_ALONE.items()
    },
    "a record alone is blamed even if a proxy asks to wait": (
        Requests(),
        [
            is_alone,
            *[fails(FaultKind.BUSY, retry_after=1.0), SEND] * 2,
            fails(FaultKind.BUSY, retry_after=1.0),
            BLAME,
        ],
    ),
    "three timeouts of a server that is up are enough": (
        Requests(),
        [is_alone, was_up, *[TIMES_OUT, SEND] * 2, TIMES_OUT, BLAME],
    ),
    "three losses of a server that is up are enough only if all are timeouts": (
        Requests(),
        [
            is_alone,
            was_up,
            *[TIMES_OUT, SEND] * 2,
            fails(FaultKind.UNAVAILABLE),
            *[SEND, TIMES_OUT] * 4,
            BLAME,
        ],
    ),
    "a batch that is lost alone is divided": (
        Requests(TWO),
        [is_alone, fails(FaultKind.UNAVAILABLE), DIVIDE],
    ),
}


@pytest.mark.parametrize(("requests", "events"), CASES.values(), ids=CASES)
def test_the_step_after(requests: Requests, events: list[Event]) -> None:
    for event in events:
        event(requests)


def test_before_there_is_a_valid_response_the_other_parts_of_the_batch_are_sent_first() -> None:
    requests = Requests(has_example=False)
    requests.fail(FaultKind.INVALID)
    assert next_step(requests.part) is NextStep.SEND_LATER
    needs_none(requests)
    assert not requests.server.is_broken
    for _ in range(15):
        requests.fail(FaultKind.INVALID)
    assert requests.server.is_broken
    assert next_step(requests.part) is NextStep.FAIL  # ten seconds have passed


def test_the_example_is_the_first_record_that_was_sent_and_had_a_valid_response() -> None:
    server = Server(retry_seconds=60)
    server.answer(TWO, results([UNSENT, UNSENT]), started=0.0)
    assert server.example is None
    server.answer(batch([5, 6], first=40), results([UNSENT, 6]), started=0.0)
    server.answer(ONE, results([1]), started=0.0)
    assert server.example is not None
    assert (server.example.first, decoded(server.example)) == (41, [6])


def test_a_response_to_a_request_that_was_sent_before_does_not_say_that_the_server_is_back() -> (
    None
):
    requests = Requests()
    requests.fail(FaultKind.LOST)
    lost_at = requests.now
    requests.answer(started=lost_at - 0.5)
    assert requests.server.cut_off_at == lost_at
    requests.answer()
    assert requests.server.cut_off_at is None

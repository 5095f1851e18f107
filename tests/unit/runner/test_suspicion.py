"""When a batch is suspected of ending the server."""

from typing import Any

import pytest

from inferrun.plugins import Fault, FaultKind, InferenceError
from runner.suspicion import Suspicion, Witnesses


class Requests:
    """One batch under suspicion, and requests of others around it. Time passes with each step."""

    def __init__(self) -> None:
        self.witnesses = Witnesses()
        self.suspicion = Suspicion(self.witnesses)
        self.now = 0.0

    def begin(self) -> float:
        self.now += 1
        self.witnesses.begin()
        return self.now

    def end(self, started: float, *, is_answered: bool) -> None:
        self.now += 1
        self.witnesses.end(started=started, is_answered=is_answered)

    def answer(self) -> None:
        self.end(self.begin(), is_answered=True)

    def lose(
        self, kind: FaultKind = FaultKind.LOST, *, was_sent: bool = True, retry_after: float | None = None
    ) -> None:
        self.end(self.begin(), is_answered=False)
        fault = Fault(InferenceError("lost"), kind=kind, was_sent=was_sent, retry_after=retry_after)
        self.suspicion.add(fault, now=self.now)


def test_two_losses_with_everything_in_flight_are_suspicious() -> None:
    requests = Requests()
    for expected in (False, True):
        requests.answer()
        other = requests.begin()
        requests.lose()
        assert not requests.suspicion.is_strong
        requests.end(other, is_answered=False)
        assert requests.suspicion.is_strong is expected


def test_losses_while_others_are_answered_have_to_be_more() -> None:
    requests = Requests()
    for expected in (False, False, False, True):
        requests.answer()
        other = requests.begin()
        requests.lose()
        requests.end(other, is_answered=True)
        assert requests.suspicion.is_strong is expected


def test_a_request_that_was_sent_later_is_no_survivor() -> None:
    requests = Requests()
    for _ in range(2):
        requests.answer()
        requests.lose()
    assert requests.suspicion.is_strong
    requests.answer()
    assert requests.suspicion.is_strong


@pytest.mark.parametrize("kind", [FaultKind.LOST, FaultKind.UNAVAILABLE, FaultKind.BUSY])
def test_a_server_that_answers_nothing_in_between_is_down(kind: FaultKind) -> None:
    requests = Requests()
    requests.answer()
    for _ in range(20):
        requests.lose(kind)
    assert (requests.suspicion.is_strong, requests.suspicion.is_repeated) == (False, False)
    assert requests.suspicion.needs_proof
    requests.answer()
    assert not requests.suspicion.needs_proof


def test_a_server_that_has_never_answered_makes_nothing_suspicious() -> None:
    requests = Requests()
    for _ in range(20):
        requests.lose()
    assert (requests.suspicion.is_strong, requests.suspicion.needs_proof) == (False, False)
    assert requests.suspicion.was_cut_off


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (FaultKind.UNAVAILABLE, {"was_sent": False}),
        (FaultKind.BUSY, {"retry_after": 1.0}),
        (FaultKind.TIMEOUT, {}),
        (FaultKind.REJECTED, {}),
    ],
)
def test_other_faults_say_nothing_about_the_records(kind: FaultKind, more: dict[str, Any]) -> None:  # Any: a value
    requests = Requests()
    for _ in range(20):
        requests.answer()
        requests.lose(kind, **more)
    assert (requests.suspicion.is_strong, requests.suspicion.is_repeated) == (False, False)


def test_rejections_for_overload_are_suspicious_only_if_retries_do_not_help() -> None:
    requests = Requests()
    for _ in range(20):
        requests.answer()
        requests.lose(FaultKind.BUSY)
    assert (requests.suspicion.is_strong, requests.suspicion.is_repeated) == (False, True)


def test_a_closed_connection_is_known_until_the_server_answers() -> None:
    requests = Requests()
    survivor = requests.begin()
    requests.lose()
    first = requests.now
    requests.end(survivor, is_answered=True)
    requests.lose()
    requests.lose(FaultKind.UNAVAILABLE, was_sent=False)
    assert requests.witnesses.cut_off_at == first
    requests.answer()
    assert requests.witnesses.cut_off_at is None

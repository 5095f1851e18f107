"""Requests without a response, as the sender sees them: who is blamed, and what is sent
meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import pytest

from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    InferenceError,
    ModelAbilities,
    RecordError,
    Results,
)
from tests.unit.runner.batches import results
from tests.unit.runner.simulated_time import predict

RECORDS = 300


class Answering:
    """A model that answers each record with its index."""

    max_records: ClassVar[int | None] = None
    abilities = ModelAbilities()
    count = RECORDS

    def __init__(self) -> None:
        self.in_flight = 0
        self.most_in_flight = 0

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0.002)
            self.check(range(batch.first, batch.first + len(batch)))
        finally:
            self.in_flight -= 1
        return results(range(batch.first, batch.first + len(batch)))

    def check(self, indexes: Sequence[int]) -> None:
        """Raise Fault if these records get no response."""


LIMITS = {"request_seconds": 0.0, "batch_rows": 1, "concurrency": 1, "retry_seconds": 0.5}


def failed_with(model: Answering, **limits: float) -> dict[int, str]:
    """Predict the records, and return the codes of the errors by their indexes; the others have
    their own predictions."""
    found: dict[int, object] = {}
    predict(model, model.count, found, **LIMITS | limits)
    failed = {index: one.code for index, one in found.items() if isinstance(one, RecordError)}
    assert {index: one for index, one in found.items() if index not in failed} == {
        index: index for index in range(model.count) if index not in failed
    }
    return failed


def assert_ends(model: Answering, message: str, **limits: float) -> None:
    """The attempt ends with this message, and no record is blamed."""
    found: dict[int, object] = {}
    with pytest.raises(ExceptionGroup) as failed:
        predict(model, model.count, found, **LIMITS | limits)
    assert failed.group_contains(InferenceError, match=message)
    assert not any(isinstance(one, RecordError) for one in found.values())


@pytest.mark.parametrize(
    ("batch_rows", "concurrency", "request_seconds"),
    [(1, 1, 0), (1, 4, 0), (100, 4, 0), (100, 1, 5)],
)
def test_a_record_that_only_times_out_costs_one_record_if_others_are_answered(
    batch_rows: int, concurrency: int, request_seconds: int
) -> None:
    class Slow(Answering):
        def check(self, indexes: Sequence[int]) -> None:
            if 217 in indexes:
                raise Fault(InferenceError("no response within 300 s"), kind=FaultKind.TIMEOUT)

    limits = {
        "batch_rows": batch_rows,
        "concurrency": concurrency,
        "request_seconds": request_seconds,
    }
    assert failed_with(Slow(), **limits) == {217: "no_response"}


@pytest.mark.parametrize(
    ("kind", "first", "limits"),
    [
        (FaultKind.TIMEOUT, 217, {}),
        (FaultKind.LOST, 217, {"concurrency": 4}),
        (FaultKind.LOST, 0, {"concurrency": 4, "batch_rows": 50}),
    ],
)
def test_a_server_that_answers_nothing_any_more_ends_the_attempt(
    kind: FaultKind, first: int, limits: dict[str, float]
) -> None:
    class Ending(Answering):
        requests, is_ending = 0, False

        def check(self, indexes: Sequence[int]) -> None:
            self.requests += 1
            self.is_ending |= first in indexes
            if self.is_ending:
                raise Fault(InferenceError("no response"), kind=kind)

    model = Ending()
    assert_ends(model, "no response", **limits)
    assert model.requests < 5 * RECORDS


@pytest.mark.parametrize("kind", [FaultKind.REJECTED, FaultKind.INVALID, FaultKind.SERVER_ERROR])
def test_a_restarting_server_that_rejects_what_it_answered_before_costs_no_record(
    kind: FaultKind,
) -> None:
    """Some servers reject everything until their model is loaded. Here it concerns only the record
    that is sent as a proof."""

    class Restarting(Answering):
        faults: ClassVar = [
            Fault(InferenceError("closed"), kind=FaultKind.LOST),
            Fault(InferenceError("refused"), kind=FaultKind.UNAVAILABLE, was_sent=False),
            Fault(InferenceError("the model is not loaded"), kind=kind),
        ]

        def check(self, indexes: Sequence[int]) -> None:
            self.has_begun |= 1 in indexes
            if self.has_begun and self.faults:
                raise self.faults.pop(0)

        has_begun, count = False, 2

    model = Restarting()
    assert failed_with(model, retry_seconds=5) == {}
    assert not model.faults


class BehindAProxy(Answering):
    """A proxy answers 503 while the server is away: for a moment after each request with a deadly
    record, and until there have been so many requests of one record.
    """

    def __init__(self, deadly: frozenset[int] = frozenset(), *, away_for: int = 0) -> None:
        super().__init__()
        self._deadly = deadly
        self._left = away_for
        self._back_at = 0.0
        self.sizes: set[int] = set()

    def check(self, indexes: Sequence[int]) -> None:
        now = asyncio.get_running_loop().time()
        if not self._deadly.isdisjoint(indexes) and now >= self._back_at:
            self._back_at = now + 0.02
        self._left -= len(indexes) == 1 and self._left > 0
        if now < self._back_at or self._left:
            raise Fault(InferenceError("returned 503"), kind=FaultKind.BUSY)
        self.sizes.add(len(indexes))


@pytest.mark.parametrize("batch_rows", [100, RECORDS])
def test_deadly_records_in_all_first_requests_are_found_behind_a_proxy(batch_rows: int) -> None:
    """No record has been answered before."""
    deadly = frozenset(range(0, RECORDS, batch_rows))
    failed = failed_with(
        BehindAProxy(deadly), batch_rows=batch_rows, concurrency=4, retry_seconds=2
    )
    assert failed == dict.fromkeys(deadly, "no_response")


def test_an_outage_at_the_start_behind_a_proxy_costs_no_record_and_leaves_the_size_of_requests_as_it_is() -> (
    None
):
    model = BehindAProxy(away_for=2)
    assert failed_with(model, batch_rows=50, concurrency=2, retry_seconds=1) == {}
    assert model.sizes == {1, 50}


def test_an_outage_behind_a_proxy_that_does_not_end_ends_the_attempt() -> None:
    assert_ends(BehindAProxy(away_for=1_000_000), "returned 503", batch_rows=50, concurrency=2)


class OneByOne(Answering):
    """A server that works on one request at a time, and goes on with one whose client has given
    up."""

    def __init__(self, *, slow: int, seconds: float, timeout: float) -> None:
        super().__init__()
        self._slow = slow
        self._seconds = seconds
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._work = set[asyncio.Task[None]]()

    async def predict(self, batch: Batch) -> Results:
        work = asyncio.create_task(self._work_on(range(batch.first, batch.first + len(batch))))
        self._work.add(work)
        work.add_done_callback(self._work.discard)
        done, _ = await asyncio.wait([work], timeout=self._timeout)
        if not done:
            raise Fault(InferenceError("no response in time"), kind=FaultKind.TIMEOUT)
        return results(range(batch.first, batch.first + len(batch)))

    async def _work_on(self, indexes: Sequence[int]) -> None:
        async with self._turn:
            await asyncio.sleep(self._seconds if self._slow in indexes else 0.001)


@pytest.mark.parametrize("seconds", [0.4, 0.9])
def test_records_that_wait_behind_a_slow_one_are_not_blamed(seconds: float) -> None:
    """They time out together, each time they are sent together."""
    model = OneByOne(slow=217, seconds=seconds, timeout=0.3)
    assert failed_with(model, concurrency=4, retry_seconds=0.3) == {217: "no_response"}


def test_a_server_that_returns_a_wrong_number_of_predictions_for_every_record_ends_the_attempt() -> (
    None
):
    """A protocol may leave it to the sender to count them."""

    class Forgetful(Answering):
        has_forgotten = False

        async def predict(self, batch: Batch) -> Results:
            self.has_forgotten |= batch.first == 217
            return results([]) if self.has_forgotten else await super().predict(batch)

    assert_ends(Forgetful(), "returned 0 predictions for 1 records")

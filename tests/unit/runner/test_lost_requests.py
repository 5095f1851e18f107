"""Requests without a response, as the sender sees them: who is blamed, and what is sent meanwhile."""

import asyncio
import random
from collections.abc import Sequence
from typing import ClassVar

import pytest

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Counts,
    Fault,
    FaultKind,
    InferenceError,
    Limits,
    ModelProtocol,
    RecordError,
    Results,
)
from runner.flow.pipeline import Pipeline
from runner.sending.error_budget import ErrorBudget
from runner.sending.reorder_window import ReorderWindow
from runner.sending.sender import Sender
from tests.unit.runner.batches import batch, decoded, results
from tests.unit.runner.flow.test_pipeline import RECORDS, Numbers, Recorder


class Answering:
    """A model that answers each record with its index."""

    max_records: ClassVar[int | None] = None

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


async def predict_with(model: ModelProtocol, sink: Recorder, **limits: float) -> Counts:
    """Predict all records with these limits."""
    source = Numbers(random.Random(3))  # noqa: S311  not for security
    chosen = Limits.model_validate(
        {"request_seconds": 0, "batch_rows": 1, "concurrency": 1, "retry_seconds": 0.5} | limits
    )
    pipeline = Pipeline(source, model, sink, limits=chosen, report=lambda _: None)
    async with asyncio.timeout(30):
        return await pipeline.run(source.plan(), Checkpoint())


def failed_in(sink: Recorder) -> dict[int, str]:
    """The codes of the errors, by the indexes of their records; the others have their own predictions."""
    failed = {index: one.code for index, one in sink.written.items() if isinstance(one, RecordError)}
    answered = {index: one for index, one in sink.written.items() if index not in failed}
    assert answered == {index: index for index in range(RECORDS) if index not in failed}
    return failed


@pytest.mark.parametrize(
    ("batch_rows", "concurrency", "request_seconds"), [(1, 1, 0), (1, 4, 0), (100, 4, 0), (100, 1, 5)]
)
async def test_a_record_that_only_times_out_costs_one_record_if_others_are_answered(
    batch_rows: int, concurrency: int, request_seconds: int
) -> None:
    class Slow(Answering):
        def check(self, indexes: Sequence[int]) -> None:
            if 217 in indexes:
                raise Fault(InferenceError("no response within 300 s"), kind=FaultKind.TIMEOUT)

    sink = Recorder()
    limits = {"batch_rows": batch_rows, "concurrency": concurrency, "request_seconds": request_seconds}
    counts = await predict_with(Slow(), sink, **limits)
    assert (counts.completed, counts.failed) == (RECORDS - 1, 1)
    assert failed_in(sink) == {217: "no_response"}


async def test_a_record_is_not_blamed_for_the_connections_that_a_server_loses_at_random() -> None:
    """The server answers the next request after each loss, and loses the one after that, too."""

    class Shaky(Answering):
        losses, since = 8, 0

        def check(self, indexes: Sequence[int]) -> None:
            self.since += 1
            if 217 in indexes and self.losses:
                self.losses, self.since = self.losses - 1, 0
            if self.losses < 8 and self.since in (0, 2):
                raise Fault(InferenceError("closed"), kind=FaultKind.LOST)

    sink = Recorder()
    await predict_with(Shaky(), sink, retry_seconds=5)
    assert failed_in(sink) == {}


async def test_a_server_that_answers_nothing_in_time_any_more_ends_the_attempt() -> None:
    class Hanging(Answering):
        is_hanging = False

        def check(self, indexes: Sequence[int]) -> None:
            self.is_hanging |= 217 in indexes
            if self.is_hanging:
                raise Fault(InferenceError("no response within 300 s"), kind=FaultKind.TIMEOUT)

    sink = Recorder()
    with pytest.raises(ExceptionGroup) as failed:
        await predict_with(Hanging(), sink)
    assert failed.group_contains(InferenceError, match="within 300 s")
    assert not any(isinstance(one, RecordError) for one in sink.written.values())


@pytest.mark.parametrize("kind", [FaultKind.REJECTED, FaultKind.INVALID, FaultKind.SERVER_ERROR])
async def test_a_restarting_server_that_rejects_what_it_answered_before_costs_no_record(kind: FaultKind) -> None:
    """Some servers reject everything until their model is loaded. Here it concerns only the record that is sent as a proof."""

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

        has_begun = False

    model, limits = Restarting(), Limits(request_seconds=0, retry_seconds=5)
    window = ReorderWindow(limit=limits.window_bytes, in_flight=lambda: 2)
    sender = Sender(model, window, limits=limits, budget=ErrorBudget(total=0), recall=None)
    async with asyncio.timeout(30):
        for index in (0, 1):
            record = batch([index], first=index)
            await window.enter(record)
            sender.expect(record)
            found = await sender.send(record)
            assert decoded(found) == [index]
    assert not model.faults


class BehindAProxy(Answering):
    """A proxy answers 503 while the server is away: for a moment after each request with a deadly record, and until there have been
    so many requests of one record.
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
async def test_deadly_records_in_all_first_requests_are_found_behind_a_proxy(batch_rows: int) -> None:
    """No record has been answered before."""
    deadly, sink = frozenset(range(0, RECORDS, batch_rows)), Recorder()
    await predict_with(BehindAProxy(deadly), sink, batch_rows=batch_rows, concurrency=4, retry_seconds=2)
    assert failed_in(sink) == dict.fromkeys(deadly, "no_response")


async def test_an_outage_at_the_start_behind_a_proxy_costs_no_record_and_leaves_the_size_of_requests_as_it_is() -> None:
    model, sink = BehindAProxy(away_for=2), Recorder()
    await predict_with(model, sink, batch_rows=50, concurrency=2, retry_seconds=1)
    assert failed_in(sink) == {}
    assert model.sizes == {1, 50}


async def test_an_outage_behind_a_proxy_that_does_not_end_ends_the_attempt() -> None:
    sink = Recorder()
    with pytest.raises(ExceptionGroup) as failed:
        await predict_with(BehindAProxy(away_for=1_000_000), sink, batch_rows=50, concurrency=2)
    assert failed.group_contains(InferenceError, match="returned 503")
    assert not sink.written


async def test_no_more_requests_than_allowed_are_in_flight_when_the_server_is_back() -> None:
    """Those that were lost wait for a proof that it answers."""

    class Away(Answering):
        back_at = float("inf")

        def check(self, indexes: Sequence[int]) -> None:
            now = asyncio.get_running_loop().time()
            if 17 in indexes and self.back_at == float("inf"):
                self.back_at = now + 0.1
                raise Fault(InferenceError("closed"), kind=FaultKind.LOST)
            if self.back_at != float("inf") and now < self.back_at:
                raise Fault(InferenceError("refused"), kind=FaultKind.UNAVAILABLE, was_sent=False)

    model, sink = Away(), Recorder()
    await predict_with(model, sink, retry_seconds=5)
    assert failed_in(sink) == {}
    assert model.most_in_flight == 1


class OneByOne(Answering):
    """A server that works on one request at a time, and goes on with one whose client has given up."""

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
async def test_records_that_wait_behind_a_slow_one_are_not_blamed(seconds: float) -> None:
    """They time out together, each time they are sent together."""
    sink = Recorder()
    await predict_with(OneByOne(slow=217, seconds=seconds, timeout=0.3), sink, concurrency=4, retry_seconds=0.3)
    assert failed_in(sink) == {217: "no_response"}


async def test_a_server_that_returns_a_wrong_number_of_predictions_for_every_record_ends_the_attempt() -> None:
    """A protocol may leave it to the sender to count them."""

    class Forgetful(Answering):
        has_forgotten = False

        async def predict(self, batch: Batch) -> Results:
            self.has_forgotten |= batch.first == 217
            return results([]) if self.has_forgotten else await super().predict(batch)

    sink = Recorder()
    with pytest.raises(ExceptionGroup) as failed:
        await predict_with(Forgetful(), sink)
    assert failed.group_contains(InferenceError, match="returned 0 predictions for 1 records")
    assert not any(isinstance(one, RecordError) for one in sink.written.values())

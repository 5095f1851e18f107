"""The pipeline under random faults, sizes and limits: every record is written once, in order, and
every chunk is committed."""

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import orjson
import pytest

from inferrun.formats.record_texts import json_texts
from inferrun.plugins import (
    Batch,
    Block,
    Checkpoint,
    Chunk,
    ChunkCommit,
    CommittedRun,
    Counts,
    Delivery,
    Fault,
    FaultKind,
    InferenceError,
    InputError,
    InputPlan,
    Limits,
    MixedBatch,
    ModelAbilities,
    Output,
    RecordError,
    Records,
    ResultCounts,
    Results,
    SourceAbilities,
    StoreAbilities,
    TokenUsage,
)
from inferrun_runner.flow.pipeline import Pipeline
from tests.unit.runner.batches import decoded, records, results
from tests.unit.runner.simulated_time import predict

RECORDS = 300


class Numbers:
    """An input of consecutive numbers in chunks and blocks of random sizes."""

    fingerprint = "numbers"
    abilities = SourceAbilities()

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        cuts = sorted({0, RECORDS, *chance.sample(range(1, RECORDS), chance.randint(0, 10))})
        ranges = itertools.pairwise(cuts)
        self.all = tuple(
            Chunk(index, unit=0, start=start, end=end, first=start, records=end - start)
            for index, (start, end) in enumerate(ranges)
        )

    def plan(self) -> InputPlan:
        return InputPlan(fingerprint=self.fingerprint, chunks=self.all)

    def read(self, chunk: Chunk) -> Iterator[Block]:
        first = chunk.start
        while first < chunk.end:
            count = min(self._chance.randint(1, 40), chunk.end - first)
            yield Block(records([index] for index in range(first, first + count)))
            first += count

    def verify(self) -> None:
        return


_MOST_FAULTS, _MOST_ALONE = 4, 2
"""The waits between tries double: a long row of faults would take minutes. A record that is lost
alone more often may be blamed."""


def places_of(batch: Batch) -> range:
    return range(batch.first, batch.first + len(batch))


def numbers_of(batch: Batch) -> list[int]:
    return [orjson.loads(text)[0] for text in json_texts(batch.records)]


class FaultyModel:
    """A model that fails, times out and responds out of order at random; numbers divisible by 50
    are errors of their record."""

    max_records: ClassVar[int | None] = None
    abilities = ModelAbilities()

    def __init__(self, chance: random.Random, *, concurrency: int) -> None:
        self._chance = chance
        self._concurrency = concurrency
        self._in_flight = 0
        self._faults: Counter[int] = Counter()

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        self._in_flight += 1
        assert self._in_flight <= self._concurrency
        await asyncio.sleep(self._chance.choice([0, 0, 0.001, 0.003]))
        self._in_flight -= 1
        numbers = numbers_of(batch)
        self._check(numbers, batch)
        kinds = [
            FaultKind.BUSY,
            FaultKind.LOST,
            FaultKind.TIMEOUT,
            FaultKind.UNAVAILABLE,
            FaultKind.TOO_LARGE,
        ]
        kind = self._chance.choice([None] * 12 + [*kinds] * 2)
        if kind is FaultKind.TOO_LARGE and len(batch) == 1:
            kind = None
        retry_after = 0.001 if kind is FaultKind.BUSY and self._chance.random() < 0.5 else None
        if retry_after is None and self._faults[numbers[0]] >= (
            _MOST_FAULTS if len(batch) > 1 else _MOST_ALONE
        ):
            kind = None
        self._faults[numbers[0]] += kind is not None and retry_after is None
        if kind:
            raise Fault(InferenceError("test"), kind=kind, retry_after=retry_after)
        return results([self._one(number) for number in numbers])

    def _check(self, numbers: list[int], batch: Batch) -> None:
        assert numbers == list(places_of(batch))

    def _one(self, number: int) -> object:
        return RecordError("invalid_prediction", "test") if number % 50 == 0 else number


class ParticularModel(FaultyModel):
    """A model whose requests have numbers with the same remainder only, and no more than some."""

    def __init__(
        self, chance: random.Random, *, concurrency: int, divisor: int = 7, most: int = 1000
    ) -> None:
        super().__init__(chance, concurrency=concurrency)
        self._divisor, self._most = divisor, most
        self.requests = 0
        self.abilities = ModelAbilities(groups_of=self.groups_of)

    def groups_of(self, records: Records) -> Sequence[Sequence[int]]:
        groups = defaultdict[int, list[int]](list)
        for at, text in enumerate(json_texts(records)):
            groups[orjson.loads(text)[0] % self._divisor].append(at)
        return list(groups.values())

    async def predict(self, batch: Batch) -> Results:
        if len(self.groups_of(batch.records)) > 1:
            raise MixedBatch
        return await super().predict(batch)

    def _check(self, numbers: list[int], batch: Batch) -> None:
        self.requests += 1
        assert len({number % self._divisor for number in numbers}) == 1
        assert len(numbers) <= self._most
        assert numbers == sorted(numbers)


class Recorder:
    """An output that records what it receives."""

    delivery: Delivery = "ExactlyOnce"
    abilities = StoreAbilities()

    def __init__(self) -> None:
        self.written: dict[int, object] = {}
        self.committed: list[int] = []

    def writer(self, chunk: Chunk) -> "Writer":
        return Writer(self, chunk)

    async def open(self) -> Checkpoint:
        return Checkpoint()

    async def begin(self, plan: InputPlan) -> InputPlan:
        return plan

    async def finish(self, counts: Counts) -> CommittedRun:
        return CommittedRun(counts.total, counts.completed, counts.failed, Output())


class Writer:
    """Records one chunk."""

    def __init__(self, recorder: Recorder, chunk: Chunk) -> None:
        self._recorder = recorder
        self._chunk = chunk
        self._next = chunk.first
        self._counts = ResultCounts(0)

    async def write(self, batch: Batch, results: Results) -> None:
        assert batch.first == self._next
        assert len(batch) == len(results) > 0
        self._next += len(batch)
        self._counts += results.counts
        self._recorder.written |= dict(enumerate(decoded(results), start=batch.first))

    async def commit(self) -> ChunkCommit:
        assert self._next == self._chunk.stop
        self._recorder.committed.append(self._chunk.index)
        return ChunkCommit(self._counts, usage=TokenUsage(total_tokens=self._counts.total))


async def run(
    source: Numbers,
    model: FaultyModel,
    sink: Recorder,
    limits: Limits,
    *,
    report: Callable[[Counts], None] = lambda _: None,
    checkpoint: Checkpoint | None = None,
) -> Counts:
    pipeline = Pipeline(source, model, sink, limits=limits, report=report)
    return await pipeline.run(source.plan(), checkpoint or Checkpoint())


@pytest.mark.parametrize("is_particular", [False, True])
@pytest.mark.parametrize("seed", range(20))
async def test_every_record_is_written_once_and_in_order(seed: int, *, is_particular: bool) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    limits = Limits(
        concurrency=chance.choice([1, 2, 3, 8]),
        batch_rows=chance.choice([5, 40, 1000]),
        window_bytes=chance.choice([1 << 20, 64 << 20]),
        request_seconds=chance.choice([0.0, 0.002, 5.0]),
        retry_seconds=60.0,
    )
    source, sink, reports = Numbers(chance), Recorder(), list[Counts]()
    model = FaultyModel(chance, concurrency=limits.concurrency)
    if is_particular:
        model = ParticularModel(chance, concurrency=limits.concurrency, most=limits.batch_rows)
    async with asyncio.timeout(120):
        counts = await run(source, model, sink, limits, report=reports.append)
    assert [
        index if isinstance(one, RecordError) else one for index, one in sink.written.items()
    ] == list(range(RECORDS))
    usage = TokenUsage(total_tokens=RECORDS)
    assert counts == Counts(total=RECORDS, completed=RECORDS - 6, failed=6, usage=usage)
    assert sink.committed == [chunk.index for chunk in source.all]
    # a search is reported as well
    ends = dict.fromkeys(report.completed + report.failed for report in reports)
    assert list(ends) == [0, *(chunk.end for chunk in source.all)]


@pytest.mark.parametrize("seed", range(10))
async def test_a_resumed_run_predicts_only_the_missing_chunks(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    source, sink = Numbers(chance), Recorder()
    done = {chunk.index: chunk for chunk in source.all if chance.random() < 0.5}
    committed = {
        index: ChunkCommit(ResultCounts(chunk.records - 1, 1)) for index, chunk in done.items()
    }
    checkpoint = Checkpoint(plan=source.plan(), committed=committed)
    model = FaultyModel(chance, concurrency=2)
    limits = Limits(concurrency=2, request_seconds=0, batch_rows=64)
    counts = await run(source, model, sink, limits, checkpoint=checkpoint)
    missing = [chunk for chunk in source.all if chunk.index not in done]
    assert sink.committed == [chunk.index for chunk in missing]
    assert list(sink.written) == [
        index for chunk in missing for index in range(chunk.first, chunk.stop)
    ]
    assert counts.completed + counts.failed == RECORDS


async def test_a_rejected_record_costs_no_other_if_records_differ() -> None:
    class Rejecting(ParticularModel):
        async def predict(self, batch: Batch) -> Results:
            numbers = numbers_of(batch)
            if len(self.groups_of(batch.records)) > 1:
                raise MixedBatch
            self._check(numbers, batch)
            if not {17, 250}.isdisjoint(numbers):
                raise Fault(InferenceError("bad record"), kind=FaultKind.REJECTED)
            return results(numbers)

    chance = random.Random(5)  # noqa: S311  not for security
    model, source, sink = Rejecting(chance, concurrency=4, divisor=3), Numbers(chance), Recorder()
    await run(source, model, sink, Limits(batch_rows=100, request_seconds=0))
    assert {at for at, one in sink.written.items() if isinstance(one, RecordError)} == {17, 250}
    assert all(one == at for at, one in sink.written.items() if at not in {17, 250})
    assert model.requests < 60


@pytest.mark.parametrize(("divisor", "expected"), [(1, 43), (7, 60), (RECORDS, RECORDS)])
async def test_requests_are_as_full_as_possible_if_records_differ(
    divisor: int, expected: int
) -> None:
    class Working(ParticularModel):
        async def predict(self, batch: Batch) -> Results:
            numbers = numbers_of(batch)
            if len(self.groups_of(batch.records)) > 1:
                raise MixedBatch
            self._check(numbers, batch)
            return results(numbers)

    chance = random.Random(5)  # noqa: S311  not for security
    model = Working(chance, concurrency=4, divisor=divisor, most=7)
    source = Numbers(chance)
    sink = Recorder()
    limits = Limits(batch_rows=7, request_seconds=0)
    await run(source, model, sink, limits)
    assert list(sink.written.items()) == [(number, number) for number in range(RECORDS)]
    assert RECORDS / 7 <= model.requests <= expected


class PickyModel(FaultyModel):
    """A model that rejects every request with a record that it does not like."""

    def __init__(self, *bad: int, kind: FaultKind = FaultKind.REJECTED) -> None:
        super().__init__(random.Random(1), concurrency=8)  # noqa: S311  not for security
        self._bad = set(bad)
        self._kind = kind
        self.requests = 0

    async def predict(self, batch: Batch) -> Results:
        self.requests += 1
        if self._bad & set(places_of(batch)):
            raise Fault(InferenceError("bad record"), kind=self._kind)
        return results([[index, 0] for index in places_of(batch)])


async def predict_with(model: PickyModel, sink: Recorder) -> Counts:
    source = Numbers(random.Random(3))  # noqa: S311  not for security
    limits = Limits(request_seconds=0, batch_rows=100, retry_seconds=1)
    async with asyncio.timeout(30):
        return await run(source, model, sink, limits)


@pytest.mark.parametrize(
    "kind", [FaultKind.REJECTED, FaultKind.INVALID, FaultKind.TOO_LARGE, FaultKind.SERVER_ERROR]
)
async def test_a_rejected_record_costs_one_record(kind: FaultKind) -> None:
    model, sink = PickyModel(17, 250, kind=kind), Recorder()
    counts = await predict_with(model, sink)
    assert (counts.completed, counts.failed) == (RECORDS - 2, 2)
    errors = {
        index: value for index, value in sink.written.items() if isinstance(value, RecordError)
    }
    assert {index: (error.code, error.message) for index, error in errors.items()} == dict.fromkeys(
        (17, 250), (kind, "bad record")
    )
    assert model.requests < 60


def errors_of_one_batch(model: PickyModel, count: int) -> dict[int, RecordError]:
    """Send so many records as one batch, without a pipeline around it."""
    found: dict[int, object] = {}
    predict(model, count, found, request_seconds=0, batch_rows=count, retry_seconds=30)
    return {index: one for index, one in found.items() if isinstance(one, RecordError)}


def test_an_error_says_how_often_its_record_was_sent() -> None:
    found = errors_of_one_batch(PickyModel(2), 8)
    # with 7 others, 3, and alone
    assert found == {2: RecordError("rejected", "bad record", attempts=3)}


def test_a_half_is_not_sent_to_be_rejected_after_the_other_half_was_accepted() -> None:
    model = PickyModel(3, 7)
    found = errors_of_one_batch(model, 8)
    assert {at: error.attempts for at, error in found.items()} == {3: 3, 7: 3}
    assert model.requests == 9  # 0 to 7, 0 to 3, 0 and 1, 2, 3, 4 to 7, 4 and 5, 6, 7


@pytest.mark.parametrize(("bad", "requests"), [({90}, 10), ({30, 200}, 19), (set(range(200)), 405)])
def test_the_rest_of_a_batch_is_sent_at_once_unless_many_of_its_records_are_rejected(
    bad: set[int], requests: int
) -> None:
    model = PickyModel(*bad)
    assert errors_of_one_batch(model, 256).keys() == bad
    assert model.requests == requests


def test_a_retry_counts_and_a_record_that_is_not_sent_does_not() -> None:
    class Busy(PickyModel):
        async def predict(self, batch: Batch) -> Results:
            self.requests += 1
            if self.requests < 3:
                raise Fault(
                    InferenceError(f"busy at {batch.first}"), kind=FaultKind.BUSY, retry_after=0.0
                )
            wrong = {
                0: RecordError("invalid_prediction", "nan"),
                1: RecordError("invalid_input", "null"),
            }
            return replace(results([[0], [1], [2]]), errors=wrong)

    found = errors_of_one_batch(Busy(), 3)
    assert {at: error.attempts for at, error in found.items()} == {0: 3, 1: 0}


def test_an_error_counts_the_rounds_in_which_the_server_gave_no_valid_response() -> None:
    class Recovering(PickyModel):
        async def predict(self, batch: Batch) -> Results:
            sent.update(places_of(batch))
            if sent.total() <= 8:
                raise Fault(InferenceError("broken"), kind=FaultKind.INVALID)
            return await super().predict(batch)

    sent: Counter[int] = Counter()
    found = errors_of_one_batch(Recovering(1, kind=FaultKind.INVALID), 2)
    assert {at: error.attempts for at, error in found.items()} == {1: sent[1]}
    assert sent[1] > 4


@pytest.mark.parametrize("bad", [range(20), range(RECORDS)], ids=["the first", "all"])
async def test_a_rejection_is_an_error_of_its_record_although_none_was_accepted_before(
    bad: range,
) -> None:
    counts = await predict_with(PickyModel(*bad), Recorder())
    assert (counts.completed, counts.failed) == (RECORDS - len(bad), len(bad))


def test_a_model_that_rejects_a_thousand_records_in_a_row_ends_the_run() -> None:
    with pytest.raises(ExceptionGroup) as failed:
        errors_of_one_batch(PickyModel(*range(1_000)), 1_000)
    assert failed.group_contains(InferenceError, match="bad record")


@pytest.mark.parametrize("kind", [FaultKind.INVALID, FaultKind.SERVER_ERROR])
@pytest.mark.parametrize("bad", [range(RECORDS), range(100, RECORDS)], ids=["all", "most"])
async def test_a_server_that_gives_no_valid_responses_any_more_ends_the_attempt(
    bad: range, kind: FaultKind
) -> None:
    class Broken(PickyModel):
        """Once broken, it is broken for all records."""

        async def predict(self, batch: Batch) -> Results:
            if batch.first in self._bad:
                self._bad = set(range(RECORDS))
            return await super().predict(batch)

    model = Broken(*bad, kind=kind)
    with pytest.raises(ExceptionGroup) as failed:
        await predict_with(model, Recorder())
    assert failed.group_contains(InferenceError, match="bad record")
    assert model.requests < 1000


async def test_a_chunk_that_lost_records_is_an_input_error() -> None:
    class Shrunk(Numbers):
        def read(self, chunk: Chunk) -> Iterator[Block]:
            yield Block(records([0] for _ in range(chunk.records - 1)))

    source = Shrunk(random.Random(1))  # noqa: S311  not for security
    model = PickyModel()
    with pytest.raises(ExceptionGroup) as failed:
        await run(source, model, Recorder(), Limits())
    assert failed.group_contains(InputError, match="the input changed")


class Together(Recorder):
    """An output whose commits complete only once two of them are under way, the later one first."""

    abilities = StoreAbilities(commits_at_a_time=3)

    def __init__(self) -> None:
        super().__init__()
        self.under_way = 0
        self.most = 0
        self.has_two = asyncio.Event()

    def writer(self, chunk: Chunk) -> "Writer":
        return TogetherWriter(self, chunk)


class TogetherWriter(Writer):
    """Commits together with others."""

    async def commit(self) -> ChunkCommit:
        sink = self._recorder
        assert isinstance(sink, Together)
        sink.under_way += 1
        sink.most = max(sink.most, sink.under_way)
        if sink.under_way > 1:
            sink.has_two.set()
        if self._chunk.index == 0:
            await sink.has_two.wait()
        await asyncio.sleep(0)
        commit = await super().commit()
        sink.under_way -= 1
        return commit


async def test_chunks_are_committed_several_at_a_time() -> None:
    sink, reports, chance = Together(), list[Counts](), random.Random(1)  # noqa: S311  not for security
    source = Numbers(chance)
    source.all = tuple(Chunk(at, 0, 10 * at, 10 * at + 10, 10 * at, 10) for at in range(9))
    model = FaultyModel(chance, concurrency=2)
    async with asyncio.timeout(60):
        counts = await run(source, model, sink, Limits(concurrency=2), report=reports.append)
    assert 2 <= sink.most <= 3
    assert sorted(sink.committed) == list(range(9))
    assert counts.completed + counts.failed == reports[-1].completed + reports[-1].failed == 90

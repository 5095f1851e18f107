"""The pipeline under random faults, sizes and limits: every record is written once, in order, and every chunk is committed."""

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    CommittedRun,
    Counts,
    Delivery,
    InferenceError,
    InputPlan,
    Limits,
    Output,
    Prediction,
    RecordError,
    ResultCounts,
    TransientError,
)
from runner.pipeline import Pipeline

RECORDS = 300


class Numbers:
    """An input of consecutive numbers in chunks and batches of random sizes."""

    fingerprint = "numbers"

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        cuts = sorted({0, RECORDS, *chance.sample(range(1, RECORDS), chance.randint(0, 10))})
        ranges = itertools.pairwise(cuts)
        self.all = [Chunk(index=index, unit=0, start=start, end=end) for index, (start, end) in enumerate(ranges)]

    def plan(self) -> InputPlan:
        return InputPlan(fingerprint=self.fingerprint, chunk_size=1, total=RECORDS)

    def chunks(self, plan: InputPlan) -> Sequence[Chunk]:
        assert plan.fingerprint == self.fingerprint
        return self.all

    def read(self, chunk: Chunk, *, first: int) -> Iterator[Batch]:
        assert first == chunk.start
        while first < chunk.end:
            count = min(self._chance.randint(1, 40), chunk.end - first)
            yield Batch(first=first, rows=[[float(index)] for index in range(first, first + count)])
            first += count

    def verify(self) -> None:
        return


class FaultyModel:
    """A model that fails, times out and responds out of order at random; numbers divisible by 50 are errors of their record."""

    def __init__(self, chance: random.Random, *, concurrency: int) -> None:
        self._chance = chance
        self._concurrency = concurrency
        self._in_flight = 0

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Sequence[Prediction]:
        self._in_flight += 1
        assert self._in_flight <= self._concurrency
        await asyncio.sleep(self._chance.choice([0, 0, 0.001, 0.003]))
        self._in_flight -= 1
        kind = self._chance.choice(["ok"] * 6 + ["busy", "lost", "slow", "asked"])
        if kind != "ok":
            raise TransientError(
                InferenceError(kind),
                retry_after=0.001 if kind == "asked" else None,
                is_connection_lost=kind == "lost",
                is_timeout=kind == "slow",
            )
        return [self._one(row[0]) for row in batch.rows]

    def _one(self, number: float | None) -> Prediction:
        return RecordError("invalid_prediction", "test") if number is not None and number % 50 == 0 else number


class Recorder:
    """An output that records what it receives."""

    delivery: Delivery = "ExactlyOnce"
    commits_chunks = True

    def __init__(self) -> None:
        self.written: list[Prediction] = []
        self.committed: list[tuple[int, int]] = []

    async def open(self) -> Checkpoint:
        return Checkpoint()

    async def begin(self, plan: InputPlan) -> InputPlan:
        return plan

    async def write(self, batch: Batch, predictions: Sequence[Prediction]) -> None:
        assert batch.first == len(self.written)
        self.written += predictions

    async def commit(self, chunk: Chunk) -> None:
        self.committed.append((chunk.index, len(self.written)))

    async def finish(self, counts: Counts) -> CommittedRun:
        return CommittedRun(counts.total, counts.completed, counts.failed, Output())


@pytest.mark.parametrize("seed", range(20))
async def test_every_record_is_written_once_and_in_order(seed: int) -> None:
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
    pipeline = Pipeline(source, model, sink, limits=limits, report=reports.append)
    async with asyncio.timeout(30):
        counts = await pipeline.run(source.chunks(source.plan()), Checkpoint(), total=RECORDS)
    assert [index if isinstance(one, RecordError) else one for index, one in enumerate(sink.written)] == [
        float(index) for index in range(RECORDS)
    ]
    assert counts == Counts(total=RECORDS, completed=RECORDS - 6, failed=6)
    assert sink.committed == [(chunk.index, chunk.end) for chunk in source.all]
    assert [report.completed + report.failed for report in reports] == [0, *(chunk.end for chunk in source.all)]


async def test_a_resumed_run_starts_after_the_committed_chunks() -> None:
    chance = random.Random(1)  # noqa: S311  not for security
    source, sink = Numbers(chance), Recorder()
    done = source.all[0].end
    sink.written = [0.0] * done
    checkpoint = Checkpoint(plan=source.plan(), committed_chunks=1, committed=ResultCounts(done - 1, 1))
    model = FaultyModel(chance, concurrency=2)
    pipeline = Pipeline(source, model, sink, limits=Limits(concurrency=2), report=lambda _: None)
    counts = await pipeline.run(source.chunks(source.plan()), checkpoint, total=RECORDS)
    assert len(sink.written) == counts.completed + counts.failed == RECORDS
    assert [index for index, _ in sink.committed] == [chunk.index for chunk in source.all[1:]]


async def test_an_error_ends_the_pipeline_although_the_reader_is_waiting() -> None:
    class BrokenModel(FaultyModel):
        async def predict(self, batch: Batch) -> Sequence[Prediction]:
            raise InferenceError(f"broken at {batch.first}")

    chance = random.Random(2)  # noqa: S311  not for security
    source = Numbers(chance)
    model = BrokenModel(chance, concurrency=1)
    pipeline = Pipeline(source, model, Recorder(), limits=Limits(concurrency=1), report=lambda _: None)
    with pytest.raises(ExceptionGroup) as failed:
        async with asyncio.timeout(10):
            await pipeline.run(source.chunks(source.plan()), Checkpoint(), total=RECORDS)
    assert failed.group_contains(InferenceError, match="broken at 0")

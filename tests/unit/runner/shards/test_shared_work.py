"""Several Pods of one run in every interleaving: each chunk is committed once, and so is the run,
whoever dies when."""

import asyncio
import random
from contextlib import suppress
from dataclasses import replace

import pytest

from inferrun.error_threshold import ErrorThreshold
from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    Counts,
    InputPlan,
    Limits,
    Member,
    RecordError,
    Results,
    RunnerError,
    TokenUsage,
)
from inferrun_runner.errors import RunCommittedElsewhere, TooManyErrors, first_error
from inferrun_runner.flow.pipeline import Pipeline
from inferrun_runner.sending.error_budget import ErrorBudget
from inferrun_runner.shards.shared_work import SharedWork, counts_of
from tests.unit.runner.flow.test_pipeline import FaultyModel, Numbers
from tests.unit.runner.shards.memory_store import Handle, Shared

CHUNKS, PER_CHUNK = 24, 7
RECORDS = CHUNKS * PER_CHUNK
FAILED = len(range(0, RECORDS, 50))
PLAN = InputPlan(
    "numbers",
    tuple(
        Chunk(n, 0, n * PER_CHUNK, (n + 1) * PER_CHUNK, n * PER_CHUNK, PER_CHUNK)
        for n in range(CHUNKS)
    ),
)
LONG = 120.0
"""Seconds after which a test is stuck."""


def numbers() -> Numbers:
    """An input of consecutive numbers."""
    source = Numbers(random.Random(1))  # noqa: S311  not for security
    source.all = PLAN.chunks
    return source


async def execute(
    shared: Shared,
    shard: int,
    *,
    name: str,
    shards: int = 3,
    lives: int | None = None,
    patience: float = 0.05,
    launch: int = 1,
    model: FaultyModel | None = None,
    threshold: str = "",
) -> Counts | None:
    """What one Pod does; the counts if it has committed the run, None if another one has."""
    handle = Handle(shared, lives=lives)
    limits = Limits(concurrency=2, batch_rows=10, request_seconds=0.0)
    budget = ErrorBudget(
        total=RECORDS, threshold=ErrorThreshold.parse(threshold) if threshold else None
    )
    chosen = model or FaultyModel(shared.chance, concurrency=limits.concurrency)
    pipeline = Pipeline(
        numbers(), chosen, handle, limits=limits, report=lambda _: None, budget=budget
    )
    own = Member(name=name, shard=shard, launch=launch)
    work = SharedWork(
        handle, PLAN, own=own, shards=shards, patience=patience, check_failed=budget.check_committed
    )
    try:
        async with work.shared():
            await pipeline.run(PLAN, await handle.open(), work)
            counts = counts_of(await work.read_commits(), PLAN)
            budget.check_committed(counts.failed)
            await handle.finish(counts)
            return counts
    except (RunnerError, ExceptionGroup) as error:
        if not isinstance(first_error(error), RunCommittedElsewhere):
            raise
    return None


async def survive(shared: Shared, shard: int, *, shards: int, chance: random.Random) -> None:
    """A shard whose Pods are killed a few times and replaced, until one of them ends."""
    for replacement in range(chance.randint(0, 3)):
        lives = chance.randint(1, 60)
        with suppress(RunnerError, ExceptionGroup):
            await execute(shared, shard, name=f"{shard}-{replacement}", shards=shards, lives=lives)
            return
    await execute(shared, shard, name=f"{shard}-last", shards=shards)


def assert_whole(shared: Shared) -> None:
    """Each record has one result, in order, and the run was committed once, with the counts of all
    Pods."""
    error = RecordError("invalid_prediction", "test")
    expected = [index if index % 50 else error for index in range(RECORDS)]
    found = [
        replace(one, attempts=0) if isinstance(one, RecordError) else one for one in shared.records
    ]
    assert found == expected  # how often a record was sent depends on the faults
    usage = TokenUsage(total_tokens=RECORDS)
    assert shared.manifests == [Counts(RECORDS, RECORDS - FAILED, FAILED, usage)]


@pytest.mark.parametrize("seed", range(20))
async def test_every_chunk_and_the_run_are_committed_once_whoever_dies_when(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    shared, shards = Shared(chance), chance.randint(2, 5)
    async with asyncio.timeout(LONG):
        await asyncio.gather(
            *(survive(shared, shard, shards=shards, chance=chance) for shard in range(shards))
        )
    assert_whole(shared)


async def test_pods_that_live_do_not_predict_a_chunk_twice() -> None:
    shared = Shared(random.Random(1))  # noqa: S311  not for security
    async with asyncio.timeout(LONG):
        ended = await asyncio.gather(
            *(execute(shared, shard, name=f"pod-{shard}", patience=LONG) for shard in range(3))
        )
    assert_whole(shared)
    assert set(shared.tries.values()) == {1}
    assert len([counts for counts in ended if counts is not None]) == 1


async def test_a_pod_without_work_of_its_own_helps_the_others() -> None:
    shared = Shared(random.Random(2))  # noqa: S311  not for security
    async with asyncio.timeout(LONG):
        await execute(shared, 1, name="alone", shards=4)
    assert_whole(shared)
    assert len(shared.members) == 1


async def test_a_later_launch_takes_over_at_once_what_an_earlier_one_had_claimed() -> None:
    shared = Shared(random.Random(3))  # noqa: S311  not for security
    with pytest.raises((RunnerError, ExceptionGroup)):
        await execute(shared, 0, name="first", lives=12, patience=LONG)
    assert 0 < len(shared.commits) < CHUNKS or shared.claims
    async with asyncio.timeout(LONG / 2):
        await execute(shared, 1, name="second", launch=2, patience=LONG)
    assert_whole(shared)


async def test_a_pod_that_ends_frees_what_it_has_claimed() -> None:
    class Stopping(FaultyModel):
        async def predict(self, batch: Batch) -> Results:
            if batch.first >= 2 * PER_CHUNK:
                stopped.cancel()
                await asyncio.Event().wait()
            return await super().predict(batch)

    shared = Shared(random.Random(4))  # noqa: S311  not for security
    model = Stopping(shared.chance, concurrency=2)
    stopped = asyncio.ensure_future(execute(shared, 0, name="stopped", patience=LONG, model=model))
    with pytest.raises(asyncio.CancelledError):
        await stopped
    assert shared.members["stopped"].has_ended
    async with asyncio.timeout(LONG / 2):
        await execute(shared, 1, name="other", patience=LONG)
    assert_whole(shared)


async def test_too_many_errors_of_all_pods_together_end_all_of_them() -> None:
    shared = Shared(random.Random(5))  # noqa: S311  not for security
    async with asyncio.timeout(LONG):
        ended = await asyncio.gather(
            *(
                execute(shared, shard, name=f"pod-{shard}", threshold=str(FAILED - 1))
                for shard in range(3)
            ),
            return_exceptions=True,
        )
    causes = [first_error(error) for error in ended if isinstance(error, BaseException)]
    assert [type(cause) for cause in causes] == [TooManyErrors] * 3
    assert not shared.manifests


async def test_a_threshold_that_holds_for_the_run_holds_for_each_pod() -> None:
    shared = Shared(random.Random(6))  # noqa: S311  not for security
    async with asyncio.timeout(LONG):
        await asyncio.gather(
            *(
                execute(shared, shard, name=f"pod-{shard}", threshold=str(FAILED))
                for shard in range(3)
            )
        )
    assert_whole(shared)


async def test_each_pod_reports_the_progress_of_the_whole_run() -> None:
    shared, seen = Shared(random.Random(7)), list[Counts]()  # noqa: S311  not for security
    first, second = (
        SharedWork(
            Handle(shared),
            PLAN,
            own=Member(name=name, shard=shard, launch=1),
            shards=2,
            patience=LONG,
            report=lambda: seen.append(second.counts),
        )
        for shard, name in enumerate("ab")
    )
    async with asyncio.timeout(LONG), second.shared():
        async with first.shared():
            limits = Limits(concurrency=2, batch_rows=10, request_seconds=0.0)
            model = FaultyModel(shared.chance, concurrency=2)
            handle = Handle(shared)
            await Pipeline(numbers(), model, handle, limits=limits, report=lambda _: None).run(
                PLAN, Checkpoint(), first
            )
        while await second.wait_for_more():  # it may not know yet what has been committed
            assert await second.take() is None
        whole = Counts(RECORDS, RECORDS - FAILED, FAILED, TokenUsage(total_tokens=RECORDS))
        while seen[-1:] != [whole]:  # noqa: ASYNC110  what the other Pod says about its errors follows its commits
            await asyncio.sleep(0.01)
    assert first.counts == whole

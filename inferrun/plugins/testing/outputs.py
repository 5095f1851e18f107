"""What every output store must do; more is required of exactly-once stores, and of those that can
abort a run."""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    ChunkCommit,
    ChunkWriter,
    CommittedRun,
    ContractError,
    Counts,
    InputPlan,
    JsonRecords,
    OutputError,
    OutputStore,
    RecordError,
    ResultCounts,
    Results,
)
from inferrun.plugins.testing.worlds import RUN, OutputWorld

CHUNKS: Final = tuple(
    Chunk(index, 0, 10 * index, 10 * index + 10, 10 * index, 10) for index in range(3)
)
PLAN: Final = InputPlan(fingerprint="rows-sha256:1", chunks=CHUNKS)
WHOLE: Final = [float(value) for value in range(30)]


def records(values: Iterable[object]) -> JsonRecords:
    """JSON texts of values."""
    return JsonRecords([json.dumps(value).encode() for value in values])


def batch(numbers: Iterable[int], *, first: int = 0) -> Batch:
    """Records of one number."""
    return Batch(first=first, records=records([float(number)] for number in numbers))


def results(values: Sequence[float | RecordError]) -> Results:
    """Predictions; a RecordError is an error of its record."""
    errors = {at: value for at, value in enumerate(values) if isinstance(value, RecordError)}
    return Results(
        records(None if at in errors else value for at, value in enumerate(values)), errors
    )


async def write(store: OutputStore, chunk: Chunk, *, add: float = 0.0) -> ChunkWriter:
    """Write the predictions of a chunk in two batches; `add` distinguishes attempts."""
    writer = store.writer(chunk)
    for first in (chunk.first, chunk.first + 5):
        indexes = range(first, first + 5)
        await writer.write(batch(indexes, first=first), results([index + add for index in indexes]))
    return writer


async def predict(
    store: OutputStore, chunks: Sequence[Chunk], *, add: float = 0.0
) -> list[ChunkCommit]:
    """Write and commit chunks."""
    return [await (await write(store, chunk, add=add)).commit() for chunk in chunks]


async def finish(store: OutputStore) -> CommittedRun:
    """Commit the run."""
    return await store.finish(Counts(total=30, completed=30))


def plan_for(store: OutputStore, plan: InputPlan = PLAN) -> InputPlan:
    """The plan of a run that stores its results there: with the columns of the results if they are
    typed."""
    if store.abilities.typed is None:
        return plan
    import pyarrow  # noqa: PLC0415  only typed results need it

    from inferrun.formats.result_schema import result_schema  # noqa: PLC0415  as above

    columns = result_schema(
        key=None, copied=(), predicted=pyarrow.float64(), types={}, is_flat=False, field="output"
    )
    return replace(plan, result_schema=columns.serialized())


async def begin(store: OutputStore) -> None:
    """Begin the run, or continue it."""
    await store.open()
    await store.begin(plan_for(store))


async def complete(store: OutputStore) -> CommittedRun:
    """Execute the whole run."""
    await begin(store)
    await predict(store, CHUNKS)
    return await finish(store)


class OutputStoreTests(OutputWorld):
    """Tests of an output store."""

    async def test_a_run_is_stored_completely_and_in_order(self, world: OutputWorld) -> None:
        async with world.open() as store:
            assert store.delivery == world.delivery
            assert await store.open() == Checkpoint()
            assert await store.begin(plan_for(store)) == plan_for(store)
            await predict(store, CHUNKS)
            finished = await finish(store)
        assert world.stored(RUN) == WHOLE
        assert (finished.total, finished.completed, finished.failed) == (30, 30, 0)
        assert finished.output.location

    async def test_a_run_may_have_no_records(self, world: OutputWorld) -> None:
        async with world.open() as store:
            await store.open()
            await store.begin(plan_for(store, InputPlan(fingerprint="empty")))
            finished = await store.finish(Counts(total=0))
        assert world.stored(RUN) == []
        assert finished.total == 0

    async def test_runs_are_independent_of_each_other(self, world: OutputWorld) -> None:
        for run, add in (("11111111-run", 0.0), ("22222222-run", 100.0)):
            async with world.open(run=run) as store:
                assert await store.open() == Checkpoint()
                await store.begin(plan_for(store))
                await predict(store, CHUNKS, add=add)
                await finish(store)
        assert world.stored("11111111-run") == WHOLE
        assert world.stored("22222222-run") == [value + 100.0 for value in WHOLE]

    async def test_an_invalid_storage_object_is_reported_with_its_field(
        self, world: OutputWorld
    ) -> None:
        with pytest.raises(ContractError, match=rf"^output\.{world.label}\."):
            async with world.open_wrong():
                pass


class ExactlyOnceTests(OutputWorld):
    """Tests of an output store that stores each record once, whatever happens to the Pods."""

    delivery = "ExactlyOnce"

    async def test_the_next_attempt_continues_after_the_last_committed_chunk(
        self, world: OutputWorld
    ) -> None:
        async with world.open() as store:
            await begin(store)
            await predict(store, CHUNKS[:2])
            await write(store, CHUNKS[2], add=500.0)
        assert world.stored(RUN) == WHOLE[:20]
        async with world.open(pod="pod-2") as store:
            checkpoint = await store.open()
            assert checkpoint.plan == plan_for(store)
            assert {
                index: commit.counts for index, commit in checkpoint.committed.items()
            } == dict.fromkeys((0, 1), ResultCounts(10))
            await store.begin(plan_for(store))
            await predict(store, CHUNKS[2:])
            await finish(store)
        assert world.stored(RUN) == WHOLE

    async def test_the_first_plan_applies_to_all_attempts(self, world: OutputWorld) -> None:
        other = InputPlan(fingerprint="rows-sha256:2", chunks=CHUNKS[:1])
        async with world.open() as first, world.open(pod="pod-2") as second:
            await first.open()
            await second.open()
            assert await first.begin(plan_for(first)) == plan_for(first)
            assert await second.begin(other) == plan_for(second)

    async def test_two_concurrent_attempts_store_each_record_once(self, world: OutputWorld) -> None:
        async with world.open() as first, world.open(pod="pod-2") as second:
            for store in (first, second):
                await begin(store)
            await predict(first, CHUNKS[:1])
            await predict(second, CHUNKS[:2], add=1000.0)
            await predict(first, CHUNKS[1:])
            results = [await finish(first)]
            await predict(second, CHUNKS[2:], add=1000.0)
            results.append(await finish(second))
        assert world.stored(RUN) == [
            *WHOLE[:10],
            *(value + 1000.0 for value in WHOLE[10:20]),
            *WHOLE[20:],
        ]
        assert results[0] == results[1]

    @pytest.mark.parametrize("has_begun", [True, False])
    async def test_a_late_attempt_changes_nothing(
        self, world: OutputWorld, *, has_begun: bool
    ) -> None:
        async with world.open() as late:
            assert await late.open() == Checkpoint()
            begun = []
            if has_begun:
                await late.begin(plan_for(late))
                begun.append(await write(late, CHUNKS[0], add=1000.0))
            async with world.open(pod="pod-2") as store:
                finished = await complete(store)
            if not has_begun:
                await late.begin(plan_for(late))
            assert not any([(await one.commit()).won for one in begun])
            assert not any(
                commit.won for commit in await predict(late, CHUNKS[len(begun) :], add=1000.0)
            )
            assert await finish(late) == finished
        assert world.stored(RUN) == WHOLE

    async def test_a_committed_run_is_reported_with_its_result(self, world: OutputWorld) -> None:
        async with world.open() as store:
            finished = await complete(store)
        async with world.open(pod="pod-2") as store:
            assert (await store.open()).committed_run == finished
        assert world.stored(RUN) == WHOLE

    async def test_a_failed_record_is_stored_as_an_error_and_counted(
        self, world: OutputWorld
    ) -> None:
        error = RecordError("invalid_prediction", "the model returned NaN")
        async with world.open() as store:
            await begin(store)
            writer = store.writer(CHUNKS[0])
            await writer.write(batch(range(10)), results([*WHOLE[:9], error]))
            assert (await writer.commit()).counts == ResultCounts(completed=9, failed=1)
        async with world.open(pod="pod-2") as store:
            assert (await store.open()).committed[0].counts == ResultCounts(completed=9, failed=1)
            await store.begin(plan_for(store))
            await predict(store, CHUNKS[1:])
            run = await store.finish(Counts(total=30, completed=29, failed=1))
        assert (run.completed, run.failed) == (29, 1)
        assert world.stored(RUN)[:9] == WHOLE[:9]
        assert world.stored(RUN)[9] != 9.0

    async def test_several_chunks_are_written_at_the_same_time_and_committed_in_any_order(
        self, world: OutputWorld
    ) -> None:
        async with world.open() as store:
            await begin(store)
            _, *others = [await write(store, chunk) for chunk in CHUNKS]
            for writer in reversed(others):
                assert (await writer.commit()).won
        async with world.open(pod="pod-2") as store:
            assert sorted((await store.open()).committed) == [1, 2]
            await store.begin(plan_for(store))
            await predict(store, CHUNKS[:1])
            await finish(store)
        assert world.stored(RUN) == WHOLE

    async def test_a_lost_chunk_has_the_counts_of_the_attempt_that_won(
        self, world: OutputWorld
    ) -> None:
        error = RecordError("rejected", "no")
        async with world.open() as first, world.open(pod="pod-2") as second:
            for store in (first, second):
                await begin(store)
            writer = first.writer(CHUNKS[0])
            await writer.write(batch([0] * 10), results([*WHOLE[:9], error]))
            won = await writer.commit()
            (lost,) = await predict(second, CHUNKS[:1])
        assert (won.won, lost.won) == (True, False)
        assert lost.counts == won.counts == ResultCounts(9, 1)
        assert (lost.bytes, lost.sha256) == (won.bytes, won.sha256)


Ask = Callable[[], Awaitable[CommittedRun | None]]


def settling(store: OutputStore) -> tuple[Ask, Ask]:
    """What finds the commit of a run, and what aborts it."""
    assert store.abilities.find_commit is not None
    assert store.abilities.abort is not None
    return store.abilities.find_commit, store.abilities.abort


class AbortableTests(OutputWorld):
    """Tests of an output store that is asked about a run whose Pod disappeared."""

    async def test_a_store_finds_the_commit_without_executing_the_run(
        self, world: OutputWorld
    ) -> None:
        async with world.open(run="verified-1", pod="verify") as store:
            assert await settling(store)[0]() is None
        async with world.open(run="verified-1") as store:
            finished = await complete(store)
        async with world.open(run="verified-1", pod="verify") as store:
            find_commit, abort = settling(store)
            assert await find_commit() == finished
            assert await abort() == finished
        assert world.stored("verified-1") == WHOLE

    async def test_a_run_that_was_aborted_is_never_committed(self, world: OutputWorld) -> None:
        async with world.open(run="aborted-1", pod="late") as late:
            await begin(late)
            await predict(late, CHUNKS)
            async with world.open(run="aborted-1", pod="verify") as store:
                _, abort = settling(store)
                assert await abort() is None
                assert await abort() is None
            with pytest.raises(OutputError, match="aborted"):
                await finish(late)
        async with world.open(run="aborted-1", pod="verify") as store:
            find_commit, _ = settling(store)
            assert await find_commit() is None

    async def test_a_run_may_be_aborted_before_it_began(self, world: OutputWorld) -> None:
        async with world.open(run="early-1", pod="verify") as store:
            find_commit, abort = settling(store)
            assert await abort() is None
            assert await find_commit() is None

"""What every output store must do, built-in or third-party; more is required of exactly-once stores."""

from collections.abc import AsyncIterator

import pytest

from inferrun.plugins import (
    AbortableStore,
    Batch,
    Checkpoint,
    Chunk,
    CommittedRun,
    ContractError,
    Counts,
    InputPlan,
    OutputError,
    OutputStore,
    RecordError,
    ResultCounts,
)
from tests.conformance.worlds import EXACTLY_ONCE, OUTPUTS, Disk, OutputWorld

PLAN = InputPlan(fingerprint="rows-sha256:1", chunk_size=10, total=30)
CHUNKS = [Chunk(index=index, unit=0, start=10 * index, end=10 * index + 10) for index in range(3)]
WHOLE = [float(value) for value in range(30)]


@pytest.fixture(params=OUTPUTS)
async def world(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
    async with OUTPUTS[request.param](disk) as world:
        yield world


@pytest.fixture(params=EXACTLY_ONCE)
async def once(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
    async with OUTPUTS[request.param](disk) as world:
        yield world


async def write(store: OutputStore, chunk: Chunk, *, add: float = 0.0) -> None:
    """Write the predictions of a chunk in two batches; `add` distinguishes attempts."""
    for first in (chunk.start, chunk.start + 5):
        indexes = range(first, first + 5)
        await store.write(
            Batch(first=first, rows=[[float(index)] for index in indexes]), [index + add for index in indexes]
        )


async def predict(store: OutputStore, chunks: list[Chunk], *, add: float = 0.0) -> None:
    """Write and commit chunks."""
    for chunk in chunks:
        await write(store, chunk, add=add)
        await store.commit(chunk)


async def finish(store: OutputStore) -> CommittedRun:
    """Commit the run."""
    return await store.finish(Counts(total=30, completed=30))


async def test_a_run_is_stored_completely_and_in_order(world: OutputWorld) -> None:
    async with world.open() as store:
        assert await store.open() == Checkpoint()
        assert await store.begin(PLAN) == PLAN
        await predict(store, CHUNKS)
        finished = await finish(store)
    assert world.stored() == WHOLE
    assert (finished.total, finished.completed, finished.failed) == (30, 30, 0)
    assert finished.output.location


async def test_a_run_may_have_no_records(world: OutputWorld) -> None:
    async with world.open() as store:
        await store.open()
        await store.begin(InputPlan(fingerprint="empty", chunk_size=10, total=0))
        finished = await store.finish(Counts(total=0))
    assert world.stored() == []
    assert finished.total == 0


async def test_runs_are_independent_of_each_other(world: OutputWorld) -> None:
    for run, add in (("11111111-run", 0.0), ("22222222-run", 100.0)):
        async with world.open(run=run) as store:
            assert await store.open() == Checkpoint()
            await store.begin(PLAN)
            await predict(store, CHUNKS, add=add)
            await finish(store)
    assert world.stored(run="11111111-run") == WHOLE
    assert world.stored(run="22222222-run") == [value + 100.0 for value in WHOLE]


async def test_a_store_declares_its_delivery_guarantee(world: OutputWorld) -> None:
    async with world.open() as store:
        assert store.delivery == ("ExactlyOnce" if world.label in EXACTLY_ONCE else "AtLeastOnce")


async def test_an_invalid_storage_object_is_reported_with_its_field(world: OutputWorld) -> None:
    with pytest.raises(ContractError, match=rf"^output\.{world.label}\."):
        async with world.open_wrong():
            pass


async def test_uncommitted_predictions_are_not_stored(once: OutputWorld) -> None:
    async with once.open() as store:
        await store.open()
        await store.begin(PLAN)
        await predict(store, CHUNKS[:1])
        await write(store, CHUNKS[1])
    assert once.stored() == WHOLE[:10]


async def test_the_next_attempt_continues_after_the_last_committed_chunk(once: OutputWorld) -> None:
    async with once.open() as store:
        await store.open()
        await store.begin(PLAN)
        await predict(store, CHUNKS[:2])
        await write(store, CHUNKS[2], add=500.0)
    async with once.open(pod="pod-2") as store:
        assert await store.open() == Checkpoint(plan=PLAN, committed_chunks=2, committed=ResultCounts(20))
        await store.begin(PLAN)
        await predict(store, CHUNKS[2:])
        await finish(store)
    assert once.stored() == WHOLE


async def test_the_first_plan_applies_to_all_attempts(once: OutputWorld) -> None:
    other = InputPlan(fingerprint="rows-sha256:2", chunk_size=99, total=7)
    async with once.open() as first, once.open(pod="pod-2") as second:
        await first.open()
        await second.open()
        assert await first.begin(PLAN) == PLAN
        assert await second.begin(other) == PLAN


async def test_two_concurrent_attempts_store_each_record_once(once: OutputWorld) -> None:
    async with once.open() as first, once.open(pod="pod-2") as second:
        for store in (first, second):
            await store.open()
            await store.begin(PLAN)
        await predict(first, CHUNKS[:1])
        await predict(second, CHUNKS[:2], add=1000.0)
        await predict(first, CHUNKS[1:])
        results = [await finish(first)]
        await predict(second, CHUNKS[2:], add=1000.0)
        results.append(await finish(second))
    assert once.stored() == [*WHOLE[:10], *(value + 1000.0 for value in WHOLE[10:20]), *WHOLE[20:]]
    assert results[0] == results[1]


async def test_a_late_attempt_changes_nothing(once: OutputWorld) -> None:
    async with once.open() as late:
        await late.open()
        await late.begin(PLAN)
        await write(late, CHUNKS[0], add=1000.0)
        async with once.open(pod="pod-2") as store:
            await store.open()
            await store.begin(PLAN)
            await predict(store, CHUNKS)
            finished = await finish(store)
        await late.commit(CHUNKS[0])
        await predict(late, CHUNKS[1:], add=1000.0)
        assert await finish(late) == finished
    assert once.stored() == WHOLE


async def test_a_committed_run_is_reported_with_its_result(once: OutputWorld) -> None:
    async with once.open() as store:
        await store.open()
        await store.begin(PLAN)
        await predict(store, CHUNKS)
        finished = await finish(store)
    async with once.open(pod="pod-2") as store:
        assert (await store.open()).committed_run == finished
    assert once.stored() == WHOLE


async def test_a_failed_record_is_stored_as_an_error_and_counted(once: OutputWorld) -> None:
    error = RecordError("invalid_prediction", "the model returned NaN")
    async with once.open() as store:
        await store.open()
        await store.begin(PLAN)
        await store.write(Batch(first=0, rows=[[float(index)] for index in range(10)]), [*WHOLE[:9], error])
        await store.commit(CHUNKS[0])
    async with once.open(pod="pod-2") as store:
        assert (await store.open()).committed == ResultCounts(completed=9, failed=1)
        await store.begin(PLAN)
        await predict(store, CHUNKS[1:])
        run = await store.finish(Counts(total=30, completed=29, failed=1))
    assert (run.completed, run.failed) == (29, 1)
    assert once.stored()[:9] == WHOLE[:9]
    assert once.stored()[9] != 9.0


async def test_a_store_finds_the_commit_without_executing_the_run(once: OutputWorld) -> None:
    async with once.open(run="verified-1", pod="verify") as store:
        assert isinstance(store, AbortableStore)
        assert await store.find_commit() is None
    async with once.open(run="verified-1") as store:
        await store.open()
        await store.begin(PLAN)
        await predict(store, CHUNKS)
        finished = await finish(store)
    async with once.open(run="verified-1", pod="verify") as store:
        assert isinstance(store, AbortableStore)
        assert await store.find_commit() == finished
        assert await store.abort() == finished
    assert once.stored(run="verified-1") == WHOLE


async def test_a_run_that_was_aborted_is_never_committed(once: OutputWorld) -> None:
    async with once.open(run="aborted-1", pod="late") as late:
        await late.open()
        await late.begin(PLAN)
        await predict(late, CHUNKS)
        async with once.open(run="aborted-1", pod="verify") as store:
            assert isinstance(store, AbortableStore)
            assert await store.abort() is None
            assert await store.abort() is None
        with pytest.raises(OutputError, match="aborted"):
            await finish(late)
    async with once.open(run="aborted-1", pod="verify") as store:
        assert isinstance(store, AbortableStore)
        assert await store.find_commit() is None


async def test_a_run_may_be_aborted_before_it_began(once: OutputWorld) -> None:
    async with once.open(run="early-1", pod="verify") as store:
        assert isinstance(store, AbortableStore)
        assert await store.abort() is None
        assert await store.find_commit() is None

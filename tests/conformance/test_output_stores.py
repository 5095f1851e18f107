"""What every output store must do, built-in or third-party; more is required of exactly-once stores."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

import pyarrow
import pytest

from inferrun.formats.result_schema import result_schema
from inferrun.plugins import (
    Checkpoint,
    Chunk,
    ChunkCommit,
    ChunkWriter,
    CommittedRun,
    ContractError,
    Counts,
    InputPlan,
    OutputError,
    OutputStore,
    RecordError,
    ResultCounts,
    TokenUsage,
)
from tests.conformance.worlds import CANARY, EXACTLY_ONCE, OUTPUTS, Disk, OutputWorld, labels
from tests.unit.runner.batches import batch, results

CHUNKS = tuple(
    Chunk(index, unit=0, start=10 * index, end=10 * index + 10, first=10 * index, records=10) for index in range(3)
)
PLAN = InputPlan(fingerprint="rows-sha256:1", chunks=CHUNKS)
COLUMNS = result_schema(key=None, copied=(), predicted=pyarrow.float64(), types={}, is_flat=False, field="output")
WHOLE = [float(value) for value in range(30)]


@pytest.fixture(params=labels(OUTPUTS))
async def world(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
    async with OUTPUTS[request.param](disk) as world:
        yield world


@pytest.fixture(params=labels(EXACTLY_ONCE))
async def once(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
    async with OUTPUTS[request.param](disk) as world:
        yield world


async def write(store: OutputStore, chunk: Chunk, *, add: float = 0.0) -> ChunkWriter:
    """Write the predictions of a chunk in two batches; `add` distinguishes attempts."""
    writer = store.writer(chunk)
    for first in (chunk.first, chunk.first + 5):
        indexes = range(first, first + 5)
        given = batch(([float(index)] for index in indexes), first=first)
        await writer.write(given, results([index + add for index in indexes]))
    return writer


async def predict(store: OutputStore, chunks: Sequence[Chunk], *, add: float = 0.0) -> list[ChunkCommit]:
    """Write and commit chunks."""
    return [await (await write(store, chunk, add=add)).commit() for chunk in chunks]


async def finish(store: OutputStore) -> CommittedRun:
    """Commit the run."""
    return await store.finish(Counts(total=30, completed=30))


def plan_for(store: OutputStore, plan: InputPlan = PLAN) -> InputPlan:
    """The plan of a run that stores its results there: with the columns of the results if they are typed."""
    if store.abilities.typed is not None:
        return replace(plan, result_schema=COLUMNS.serialized())
    return plan


async def begin(store: OutputStore) -> None:
    """Begin the run, or continue it."""
    await store.open()
    await store.begin(plan_for(store))


async def complete(store: OutputStore) -> CommittedRun:
    """Execute the whole run."""
    await begin(store)
    await predict(store, CHUNKS)
    return await finish(store)


async def test_a_run_is_stored_completely_and_in_order(world: OutputWorld) -> None:
    async with world.open() as store:
        assert store.delivery == ("ExactlyOnce" if world.label in EXACTLY_ONCE else "AtLeastOnce")
        assert await store.open() == Checkpoint()
        assert await store.begin(plan_for(store)) == plan_for(store)
        await predict(store, CHUNKS)
        finished = await finish(store)
    assert world.stored() == WHOLE
    assert (finished.total, finished.completed, finished.failed) == (30, 30, 0)
    assert finished.output.location


async def test_no_credential_of_the_models_url_is_stored(once: OutputWorld, disk: Disk) -> None:
    async with once.open() as store:
        await complete(store)
    stored = {path: path.read_bytes() for path in disk.folder.rglob("*") if path.is_file()}
    assert stored
    assert [path for path, content in stored.items() if CANARY.encode() in content] == []


async def test_a_run_may_have_no_records(world: OutputWorld) -> None:
    async with world.open() as store:
        await store.open()
        await store.begin(plan_for(store, InputPlan(fingerprint="empty")))
        finished = await store.finish(Counts(total=0))
    assert world.stored() == []
    assert finished.total == 0


async def test_runs_are_independent_of_each_other(world: OutputWorld) -> None:
    for run, add in (("11111111-run", 0.0), ("22222222-run", 100.0)):
        async with world.open(run=run) as store:
            assert await store.open() == Checkpoint()
            await store.begin(plan_for(store))
            await predict(store, CHUNKS, add=add)
            await finish(store)
    assert world.stored(run="11111111-run") == WHOLE
    assert world.stored(run="22222222-run") == [value + 100.0 for value in WHOLE]


async def test_an_invalid_storage_object_is_reported_with_its_field(world: OutputWorld) -> None:
    with pytest.raises(ContractError, match=rf"^output\.{world.label}\."):
        async with world.open_wrong():
            pass


async def test_the_next_attempt_continues_after_the_last_committed_chunk(once: OutputWorld) -> None:
    async with once.open() as store:
        await begin(store)
        await predict(store, CHUNKS[:2])
        await write(store, CHUNKS[2], add=500.0)
    assert once.stored() == WHOLE[:20]
    async with once.open(pod="pod-2") as store:
        checkpoint = await store.open()
        assert checkpoint.plan == plan_for(store)
        assert {index: commit.counts for index, commit in checkpoint.committed.items()} == dict.fromkeys(
            (0, 1), ResultCounts(10)
        )
        await store.begin(plan_for(store))
        await predict(store, CHUNKS[2:])
        await finish(store)
    assert once.stored() == WHOLE


async def test_the_first_plan_applies_to_all_attempts(once: OutputWorld) -> None:
    other = InputPlan(fingerprint="rows-sha256:2", chunks=CHUNKS[:1])
    async with once.open() as first, once.open(pod="pod-2") as second:
        await first.open()
        await second.open()
        assert await first.begin(plan_for(first)) == plan_for(first)
        assert await second.begin(other) == plan_for(second)


async def test_two_concurrent_attempts_store_each_record_once(once: OutputWorld) -> None:
    async with once.open() as first, once.open(pod="pod-2") as second:
        for store in (first, second):
            await begin(store)
        await predict(first, CHUNKS[:1])
        await predict(second, CHUNKS[:2], add=1000.0)
        await predict(first, CHUNKS[1:])
        results = [await finish(first)]
        await predict(second, CHUNKS[2:], add=1000.0)
        results.append(await finish(second))
    assert once.stored() == [*WHOLE[:10], *(value + 1000.0 for value in WHOLE[10:20]), *WHOLE[20:]]
    assert results[0] == results[1]


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_late_attempt_changes_nothing(once: OutputWorld, *, has_begun: bool) -> None:
    async with once.open() as late:
        assert await late.open() == Checkpoint()
        begun = []
        if has_begun:
            await late.begin(plan_for(late))
            begun.append(await write(late, CHUNKS[0], add=1000.0))
        async with once.open(pod="pod-2") as store:
            finished = await complete(store)
        if not has_begun:
            await late.begin(plan_for(late))
        assert not any([(await one.commit()).won for one in begun])
        assert not any(commit.won for commit in await predict(late, CHUNKS[len(begun) :], add=1000.0))
        assert await finish(late) == finished
    assert once.stored() == WHOLE


async def test_a_committed_run_is_reported_with_its_result(once: OutputWorld) -> None:
    async with once.open() as store:
        finished = await complete(store)
    async with once.open(pod="pod-2") as store:
        assert (await store.open()).committed_run == finished
    assert once.stored() == WHOLE


async def test_a_failed_record_is_stored_as_an_error_and_counted(once: OutputWorld) -> None:
    error = RecordError("invalid_prediction", "the model returned NaN")
    async with once.open() as store:
        await begin(store)
        writer = store.writer(CHUNKS[0])
        await writer.write(batch([[float(index)] for index in range(10)]), results([*WHOLE[:9], error]))
        assert (await writer.commit()).counts == ResultCounts(completed=9, failed=1)
    async with once.open(pod="pod-2") as store:
        assert (await store.open()).committed[0].counts == ResultCounts(completed=9, failed=1)
        await store.begin(plan_for(store))
        await predict(store, CHUNKS[1:])
        run = await store.finish(Counts(total=30, completed=29, failed=1))
    assert (run.completed, run.failed) == (29, 1)
    assert once.stored()[:9] == WHOLE[:9]
    assert once.stored()[9] != 9.0


async def test_several_chunks_are_written_at_the_same_time_and_committed_in_any_order(once: OutputWorld) -> None:
    async with once.open() as store:
        await begin(store)
        _, *others = [await write(store, chunk) for chunk in CHUNKS]
        for writer in reversed(others):
            assert (await writer.commit()).won
    async with once.open(pod="pod-2") as store:
        assert sorted((await store.open()).committed) == [1, 2]
        await store.begin(plan_for(store))
        await predict(store, CHUNKS[:1])
        await finish(store)
    assert once.stored() == WHOLE


async def test_a_lost_chunk_has_the_counts_of_the_attempt_that_won(once: OutputWorld) -> None:
    error = RecordError("rejected", "no")
    async with once.open() as first, once.open(pod="pod-2") as second:
        for store in (first, second):
            await begin(store)
        writer = first.writer(CHUNKS[0])
        await writer.write(batch([[0.0]] * 10), results([*WHOLE[:9], error]))
        won = await writer.commit()
        (lost,) = await predict(second, CHUNKS[:1])
    assert (won.won, lost.won) == (True, False)
    assert lost.counts == won.counts == ResultCounts(9, 1)
    assert (lost.bytes, lost.sha256) == (won.bytes, won.sha256)


async def test_tokens_are_kept_across_attempts(once: OutputWorld) -> None:
    if once.label == "sqlite":
        pytest.skip("the package does not store token counts")
    used = TokenUsage(prompt_tokens=5, completion_tokens=2, total_tokens=7)
    for pod, chunks in (("pod-1", CHUNKS[:1]), ("pod-2", CHUNKS[1:])):
        async with once.open(pod=pod) as store:
            await begin(store)
            for chunk in chunks:
                writer = store.writer(chunk)
                await writer.write(batch([[0.0]] * 10, first=chunk.first), replace(results(WHOLE[:10]), usage=used))
                assert (await writer.commit()).usage == used
    async with once.open(pod="pod-3") as store:
        await begin(store)
        run = await finish(store)
    assert run.usage == TokenUsage(prompt_tokens=15, completion_tokens=6, total_tokens=21)


Ask = Callable[[], Awaitable[CommittedRun | None]]


def settling(store: OutputStore) -> tuple[Ask, Ask]:
    """What finds the commit of a run, and what aborts it."""
    assert store.abilities.find_commit is not None
    assert store.abilities.abort is not None
    return store.abilities.find_commit, store.abilities.abort


async def test_a_store_finds_the_commit_without_executing_the_run(once: OutputWorld) -> None:
    async with once.open(run="verified-1", pod="verify") as store:
        assert await settling(store)[0]() is None
    async with once.open(run="verified-1") as store:
        finished = await complete(store)
    async with once.open(run="verified-1", pod="verify") as store:
        find_commit, abort = settling(store)
        assert await find_commit() == finished
        assert await abort() == finished
    assert once.stored(run="verified-1") == WHOLE


async def test_a_run_that_was_aborted_is_never_committed(once: OutputWorld) -> None:
    async with once.open(run="aborted-1", pod="late") as late:
        await begin(late)
        await predict(late, CHUNKS)
        async with once.open(run="aborted-1", pod="verify") as store:
            _, abort = settling(store)
            assert await abort() is None
            assert await abort() is None
        with pytest.raises(OutputError, match="aborted"):
            await finish(late)
    async with once.open(run="aborted-1", pod="verify") as store:
        find_commit, _ = settling(store)
        assert await find_commit() is None


async def test_a_run_may_be_aborted_before_it_began(once: OutputWorld) -> None:
    async with once.open(run="early-1", pod="verify") as store:
        find_commit, abort = settling(store)
        assert await abort() is None
        assert await find_commit() is None

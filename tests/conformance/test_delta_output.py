"""A Delta table as output: its log decides, whatever died before or after the entry of a run."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pyarrow
import pytest
from deltalake import DeltaTable, Schema

from inferrun.plugins import AbortableStore, OutputError
from runner import registry
from tests.conformance.test_output_stores import CHUNKS, COLUMNS, PLAN, WHOLE, begin, complete, finish, predict
from tests.conformance.worlds import RUN, Disk, OutputWorld, delta_objects, delta_output

TYPED = replace(PLAN, result_schema=COLUMNS.serialized())


@pytest.fixture(params=["claim", "bucket"])
async def world(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
    async with (delta_output if request.param == "claim" else delta_objects)(disk) as opened:
        yield opened


async def complete_parts(world: OutputWorld, disk: Disk) -> None:
    """What a Pod leaves that died after the manifest and before the entry in the log."""
    async with world.open() as store:
        await begin(store)
    given = {**world.right, "path": "made/_inferrun", "format": "parquet"}
    opened = registry.Registry().output_store("s3" if "bucket" in given else "file")(given, disk.context(pod="died"))
    async with opened as files:
        await complete(files)


async def test_the_next_attempt_commits_what_is_complete(world: OutputWorld, disk: Disk) -> None:
    await complete_parts(world, disk)
    async with world.open(pod="verify") as store:
        assert isinstance(store, AbortableStore)
        assert await store.find_commit() is None
    for pod in ("pod-2", "pod-3"):
        async with world.open(pod=pod) as store:
            assert (await store.open()).committed_run is not None
    assert world.stored() == WHOLE


async def test_complete_parts_of_an_aborted_run_are_never_added(world: OutputWorld, disk: Disk) -> None:
    await complete_parts(world, disk)
    async with world.open(pod="verify") as store:
        assert isinstance(store, AbortableStore)
        assert await store.abort() is None
    async with world.open(pod="pod-2") as store:
        with pytest.raises(OutputError, match="aborted"):
            await store.open()


async def test_attempts_and_a_verification_at_the_same_time_agree(world: OutputWorld) -> None:
    async with world.open() as first, world.open(pod="pod-2") as second, world.open(pod="verify") as verifying:
        assert isinstance(verifying, AbortableStore)
        for store in (first, second):
            await begin(store)
            await predict(store, CHUNKS)
        ends = await asyncio.gather(finish(first), finish(second), verifying.abort(), return_exceptions=True)
        is_committed = await verifying.find_commit() is not None
    assert all((not isinstance(end, BaseException)) == is_committed for end in ends[:2])
    assert (ends[2] is not None) == is_committed
    assert not is_committed or world.stored() == WHOLE


async def test_runs_append_at_the_same_time(world: OutputWorld) -> None:
    runs = [f"{number}{number}{number}{number}{number}{number}{number}{number}-run" for number in range(4)]

    async def execute(run: str) -> None:
        async with world.open(run=run) as store:
            await complete(store)

    await execute(runs[0])  # the test's server deletes a folder that is empty for a moment, while others write below it
    await asyncio.gather(*map(execute, runs[1:]))
    assert [world.stored(run=run) for run in runs] == [WHOLE] * 4


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"index": pyarrow.int64(), "prediction": pyarrow.int64()}, "column 'prediction' of the table is"),
        ({"index": pyarrow.int64(), "other": pyarrow.int64()}, "the table has no column 'prediction'"),
    ],
)
async def test_a_table_with_other_columns_is_refused_before_a_record_is_sent(
    disk: Disk, columns: dict[str, pyarrow.DataType], message: str
) -> None:
    place = disk.context().output_dir / "made"
    DeltaTable.create(str(place), schema=Schema.from_arrow(pyarrow.schema(columns)))
    async with delta_output(disk) as world, world.open(run=RUN) as store:
        await store.open()
        with pytest.raises(OutputError, match=message):
            await store.begin(TYPED)

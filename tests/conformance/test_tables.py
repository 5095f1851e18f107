"""Tables as output and input: the table decides, whatever died before or after its entry of a run;
a snapshot does not change."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from threading import Barrier
from typing import Any

import orjson
import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import LongType

from inferrun.formats.named_columns import with_columns
from inferrun.formats.result_schema import result_schema
from inferrun.plugins import (
    Batch,
    ColumnSelection,
    Counts,
    InputError,
    JsonRecords,
    OutputError,
    Results,
    Source,
    StoredPart,
)
from inferrun.plugins.testing import InputWorld, OutputWorld
from inferrun.plugins.testing.outputs import (
    CHUNKS,
    WHOLE,
    begin,
    complete,
    finish,
    plan_for,
    predict,
)
from inferrun.plugins.testing.worlds import RUN
from inferrun_lake.delta import DeltaRunTable
from inferrun_lake.iceberg import IcebergRunTable
from inferrun_lake.output import RunTable, TableVerdict
from inferrun_lake.spec import IcebergSpec
from inferrun_runner import registry
from tests.conformance.worlds import (
    INPUTS,
    OUTPUTS,
    DeltaOutput,
    Disk,
    IcebergInput,
    IcebergOutput,
)
from tests.unit.runner.batches import decoded

TABLES = ("delta", "delta-s3", "iceberg")


@pytest.fixture(params=TABLES)
async def world(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[OutputWorld]:
    async with OUTPUTS[request.param](disk) as opened:
        yield opened


@pytest.fixture(params=["delta", "iceberg"])
async def given(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[InputWorld]:
    async with INPUTS[request.param](disk) as opened:
        yield opened


async def test_attempts_and_a_verification_at_the_same_time_agree(world: OutputWorld) -> None:
    async with (
        world.open() as first,
        world.open(pod="pod-2") as second,
        world.open(pod="verify") as verifying,
    ):
        abort, find_commit = verifying.abilities.abort, verifying.abilities.find_commit
        assert abort is not None
        assert find_commit is not None
        for store in (first, second):
            await begin(store)
            await predict(store, CHUNKS)
        ends = await asyncio.gather(finish(first), finish(second), abort(), return_exceptions=True)
        is_committed = await find_commit() is not None
    assert all((not isinstance(end, BaseException)) == is_committed for end in ends[:2])
    assert (ends[2] is not None) == is_committed
    assert not is_committed or world.stored(RUN) == WHOLE


async def test_runs_append_at_the_same_time(world: OutputWorld) -> None:
    runs = [f"{number * 11111111}-run" for number in range(1, 5)]

    async def execute(run: str) -> None:
        # each Pod has a disk of its own
        async with world.open(run=run, pod=f"pod-of-{run}") as store:
            await complete(store)

    await asyncio.gather(*map(execute, runs))
    assert [world.stored(run) for run in runs] == [WHOLE] * 4


def test_runs_create_a_delta_table_at_the_same_time(disk: Disk) -> None:
    columns, together = pyarrow.schema([("x", pyarrow.int64())]), Barrier(6, timeout=30)

    def prepare(place: str, run: int) -> None:
        table = DeltaRunTable(place, {}, run=f"run-{run}")
        together.wait()
        table.prepare(columns)

    with ThreadPoolExecutor(6) as threads:
        for number in range(20):
            place = str(disk.context().output_dir / f"made-{number}")
            list(threads.map(prepare, [place] * 6, range(6)))
            assert [field.name for field in DeltaTable(place).schema().fields] == ["x"]


def overtaken(
    table: type[Any], other: RunTable[Any], outcome: TableVerdict, *arguments: Any
) -> RunTable[Any]:  # Any: of the type
    """A table whose first snapshot is outdated when it commits: another attempt has decided
    meanwhile."""

    class Overtaken(table):  # type: ignore[misc]  # the type is an argument
        is_first = True

        def load(self) -> object:
            found = super().load()
            if self.is_first:
                self.is_first = False
                assert other.decide(outcome) == outcome
            return found

    made: RunTable[Any] = Overtaken(*arguments, run="run")
    return made


@pytest.mark.parametrize("first", TableVerdict)
@pytest.mark.parametrize("second", TableVerdict)
async def test_a_commit_on_an_outdated_snapshot_changes_nothing(
    world: OutputWorld, disk: Disk, first: TableVerdict, second: TableVerdict
) -> None:
    async with world.open() as store:
        await complete(store)  # the table exists, and has rows
    files = disk.context().output_dir / "made"
    name = "_inferrun/inf-run-5be07ada/predictions"
    kind: type[RunTable[Any]]
    arguments: tuple[object, ...]
    if isinstance(world, IcebergOutput):
        kind, files = IcebergRunTable, world.server.bucket / "made"
        options = {**world.catalog.properties, "type": "sql"}
        arguments = IcebergSpec.model_validate(world.right), options
    elif "bucket" in world.right:
        pytest.skip("the log is the same as on a claim")
    else:
        kind, arguments = DeltaRunTable, (str(files), {})
    part = next((files / name).iterdir())
    parts = [StoredPart(str(part.relative_to(files / "_inferrun")), part.stat().st_size, 30)]
    table = overtaken(kind, kind(*arguments, run="run"), first, *arguments)
    assert await asyncio.to_thread(table.decide, second, parts) == first
    assert table.outcome() == first
    assert world.stored(RUN) == WHOLE


TYPED = pyarrow.struct(
    [
        ("whole", pyarrow.int64()),
        ("text", pyarrow.string()),
        ("at", pyarrow.timestamp("us", tz="UTC")),
        ("vector", pyarrow.list_(pyarrow.float64())),
    ]
)


async def test_typed_predictions_are_read_as_they_were_written(world: OutputWorld) -> None:
    values = [
        (2**62 + at, f"ü{at}\n", f"2026-11-24T18:00:00.00000{at}Z", [0.1 * at, -1.5])
        for at in range(10)
    ]
    texts = [orjson.dumps(dict(zip(TYPED.names, one, strict=True))) for one in values]
    columns = result_schema(
        key=None, copied=(), predicted=TYPED, types={}, is_flat=True, field="output"
    )
    world.right = {**world.right, "flatten": True}
    async with world.open() as store:
        await store.open()
        plan = replace(plan_for(store), chunks=CHUNKS[:1], result_schema=columns.serialized())
        await store.begin(plan)
        writer = store.writer(CHUNKS[0])
        await writer.write(Batch(first=0, records=JsonRecords(texts)), Results(JsonRecords(texts)))
        assert (await writer.commit()).counts.completed == 10
        await store.finish(Counts(total=10, completed=10))
    if isinstance(world, IcebergOutput):
        found = world.catalog.load_table("lake.made").scan().to_arrow()
    else:
        assert isinstance(world, DeltaOutput)
        found = DeltaTable(str(world.table)).to_pyarrow_table()
    for one in TYPED:
        assert found.schema.field(one.name).type.equals(one.type, check_metadata=False), one.name
    rows = found.sort_by("index").to_pylist()
    expected = [(*one[:2], datetime.fromisoformat(one[2]), one[3]) for one in values]
    assert [(row["whole"], row["text"], row["at"], row["vector"]) for row in rows] == expected


OTHERS = (
    (
        {"index": pyarrow.int64(), "prediction": pyarrow.int64()},
        "column 'prediction' of the table is",
    ),
    ({"index": pyarrow.int64(), "other": pyarrow.int64()}, "the table has no column 'prediction'"),
)


@pytest.mark.parametrize(("columns", "message"), OTHERS)
async def test_a_table_with_other_columns_is_refused_before_a_record_is_sent(
    world: OutputWorld, columns: dict[str, pyarrow.DataType], message: str
) -> None:
    empty = pyarrow.schema(columns).empty_table()
    if isinstance(world, IcebergOutput):
        world.catalog.create_table("lake.made", empty.schema, location="s3://records/made")
    else:
        assert isinstance(world, DeltaOutput)
        write_deltalake(str(world.table), empty)
    async with world.open() as store:
        await store.open()
        with pytest.raises(OutputError, match=message):
            await store.begin(plan_for(store))


async def test_a_type_that_tables_do_not_have_is_refused_before_a_record_is_sent(
    world: OutputWorld,
) -> None:
    columns = result_schema(
        key=None, copied=(), predicted=pyarrow.uint32(), types={}, is_flat=False, field="output"
    )
    async with world.open() as store:
        await store.open()
        with pytest.raises(
            OutputError, match=r"column 'prediction' has the type uint32.*set types.prediction"
        ):
            await store.begin(replace(plan_for(store), result_schema=columns.serialized()))


ROWS: list[list[float]] = [[at, at / 2] for at in range(30)]


def rows_of(source: Source) -> list[object]:
    return [
        row
        for chunk in source.plan().chunks
        for block in source.read(chunk)
        for row in decoded(block)
    ]


def append(world: InputWorld, disk: Disk) -> None:
    table = pyarrow.table({f"column {at}": [-1.0, -2.0] for at in range(2)})
    if isinstance(world, IcebergInput):
        world.catalog.load_table("lake.given").append(table)
    else:
        write_deltalake(str(disk.context().input_dir / "given"), table, mode="append")


async def test_every_attempt_reads_the_snapshot_with_which_the_run_began(
    given: InputWorld, disk: Disk
) -> None:
    given.fill(ROWS)
    async with given.open() as source:
        plan = source.plan()
        assert plan.objects[0].tag == plan.fingerprint.rpartition("@")[2]
    append(given, disk)
    async with given.open() as source:
        assert source.fingerprint != plan.fingerprint
        assert len(rows_of(source)) == 32
        assert source.abilities.adopt is not None
        source.abilities.adopt(plan)
        assert (source.fingerprint, rows_of(source)) == (plan.fingerprint, ROWS)


async def test_columns_are_selected_and_keep_their_types(given: InputWorld, disk: Disk) -> None:
    table = pyarrow.table(
        {
            "custom_id": ["a", "b"],
            "x": [1.5, 2.5],
            "at": pyarrow.array([0, 1], pyarrow.timestamp("us", tz="UTC")),
            "large": pyarrow.array([[1.0], [2.0, 3.0]]),
        }
    )
    if isinstance(given, IcebergInput):
        given.catalog.create_table(
            "lake.given", table.schema, location="s3://records/given"
        ).append(table)
    else:
        write_deltalake(str(disk.context().input_dir / "given"), table)
    found = await blocks(given, disk, ColumnSelection(fed=("x",), copied=("at", "large")))
    assert found.copied is not None
    assert list(found.ids) == ["a", "b"]
    assert found.records.table.schema.names == ["x"]
    assert (
        found.copied.table.select(["at", "large"]).to_pylist()
        == table.select(["at", "large"]).to_pylist()
    )
    assert found.copied.table.schema.field("at").type == table.schema.field("at").type
    with pytest.raises(InputError, match="has no column 'y'"):
        await blocks(given, disk, ColumnSelection(fed=("y",)))


async def blocks(given: InputWorld, disk: Disk, columns: ColumnSelection) -> Any:  # Any: Arrow
    (block,) = await all_blocks(given, disk, columns)
    return block


# Any: Arrow
async def all_blocks(given: InputWorld, disk: Disk, columns: ColumnSelection) -> list[Any]:
    context = disk.context()
    context = replace(
        context, columns=columns, format_named=with_columns(context.format_named, columns)
    )
    async with registry.Registry().input_store(given.label)(given.right, context) as source:
        return [block for chunk in source.plan().chunks for block in source.read(chunk)]


async def tables(given: InputWorld, disk: Disk, columns: ColumnSelection) -> pyarrow.Table:
    """The rows that are fed and copied."""
    found = await all_blocks(given, disk, columns)
    both = [(block.records.table, block.copied.table) for block in found]
    rows = [
        pyarrow.RecordBatch.from_arrays(
            [*fed.columns, *copied.columns], [*fed.schema.names, *copied.schema.names]
        )
        for fed, copied in both
    ]
    return pyarrow.Table.from_batches(rows)


def renamed(world: IcebergInput) -> None:
    """Swap `a` and `b`, and drop `c` and add it again: none of that makes a snapshot."""
    table = world.catalog.load_table("lake.given")
    for old, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        with table.update_schema() as change:
            change.rename_column(old, new)
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("c")
    with table.update_schema() as change:
        change.add_column("c", LongType())


async def test_iceberg_columns_are_those_that_pyiceberg_reads(disk: Disk) -> None:
    async with INPUTS["iceberg"](disk) as given:
        assert isinstance(given, IcebergInput)
        first = pyarrow.table({"a": [0.0, 0.5], "b": [10.0, 20.0], "c": [1, 2]})
        given.catalog.create_table(
            "lake.given", first.schema, location="s3://records/given"
        ).append(first)
        async with given.open() as source:
            plan = source.plan()
        renamed(given)
        table = given.catalog.load_table("lake.given")
        older = table.metadata.current_snapshot_id
        names = ColumnSelection(fed=("a",), copied=("b", "c"))
        for _ in range(2):  # the current snapshot is older than the schema, and then as old
            found = await tables(given, disk, names)
            assert found.sort_by("a").equals(
                table.scan().to_arrow().select(found.column_names).sort_by("a")
            )
            table.append(pyarrow.table({"a": [7.0], "b": [8.0], "c": [9]}))
        given.right["snapshot"] = older
        found = await tables(given, disk, names)
        assert found.equals(table.scan(snapshot_id=older).to_arrow().select(found.column_names))
        assert found.to_pydict() == first.to_pydict()
        del given.right["snapshot"]
        # a later attempt of the run that began before the columns were renamed
        async with given.open() as source:
            assert source.abilities.adopt is not None
            source.abilities.adopt(plan)
            assert rows_of(source) == [[0.0, 10.0, 1], [0.5, 20.0, 2]]


async def test_int96_times_of_iceberg_are_those_that_the_file_has(disk: Disk) -> None:
    """pyiceberg itself reads 1816 and 1754: Spark 4.1.4 and Iceberg 1.12 make such a table with
    `add_files`."""
    async with INPUTS["iceberg"](disk) as given:
        assert isinstance(given, IcebergInput)
        times = pyarrow.array([-62135596800000000, 253402300799999999], pyarrow.timestamp("us"))
        rows = pyarrow.table({"id": [1, 2], "at": times.cast(pyarrow.timestamp("us", tz="UTC"))})
        table = given.catalog.create_table("lake.given", rows.schema, location="s3://records/given")
        table.append(rows)
        (task,) = table.scan().plan_files()
        with table.io.new_output(task.file.file_path).create(overwrite=True) as file:
            named = rows.cast(schema_to_pyarrow(table.schema()))
            parquet.write_table(named, file, use_deprecated_int96_timestamps=True)
        found = await tables(given, disk, ColumnSelection(fed=("id",), copied=("at",)))
        assert found.column("at").cast(pyarrow.int64()).to_pylist() == [
            -62135596800000000,
            253402300799999999,
        ]

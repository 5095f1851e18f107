"""What every input store must do, built-in or third-party."""

from collections.abc import AsyncIterator

import pytest

from inferrun.plugins import Chunk, ContractError, InputError, Row, Source
from tests.conformance.worlds import INPUTS, Disk, InputWorld

ROWS: list[list[float]] = [[index, index / 2] for index in range(150)]
SMALL = {"chunk_bytes": 40, "batch_rows": 7}


@pytest.fixture(params=INPUTS)
async def world(request: pytest.FixtureRequest, disk: Disk) -> AsyncIterator[InputWorld]:
    async with INPUTS[request.param](disk) as world:
        yield world


def read_all(source: Source) -> list[tuple[int, Row]]:
    """Read all records with their indexes, chunk by chunk."""
    records: list[tuple[int, Row]] = []
    for chunk in source.chunks(source.plan()):
        for batch in source.read(chunk, first=len(records)):
            records += enumerate(batch.rows, start=batch.first)
    return records


async def test_every_record_is_read_once_in_order_with_its_index(world: InputWorld) -> None:
    world.fill(ROWS)
    async with world.open(**SMALL) as source:
        assert source.plan().total == 150
        assert read_all(source) == list(enumerate(ROWS))


async def test_every_attempt_divides_the_same_input_into_the_same_chunks(world: InputWorld) -> None:
    world.fill(ROWS)
    seen: list[tuple[str, list[Chunk]]] = []
    for _ in range(2):
        async with world.open(**SMALL) as source:
            seen.append((source.fingerprint, list(source.chunks(source.plan()))))
    assert seen[0] == seen[1]
    chunks = seen[0][1]
    assert len(chunks) > 3
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))


async def test_an_attempt_can_use_the_plan_of_another(world: InputWorld) -> None:
    world.fill(ROWS)
    async with world.open(**SMALL) as source:
        plan = source.plan()
        chunks = list(source.chunks(plan))
    async with world.open(chunk_bytes=1000) as source:
        assert list(source.chunks(plan)) == chunks


async def test_a_chunk_can_be_read_alone_and_repeatedly(world: InputWorld) -> None:
    world.fill(ROWS)
    async with world.open(**SMALL) as source:
        chunks = source.chunks(source.plan())
        once = [batch.rows for batch in source.read(chunks[2], first=0)]
        list(source.read(chunks[0], first=0))
        assert [batch.rows for batch in source.read(chunks[2], first=0)] == once
        assert sum(map(len, once)) > 0


async def test_no_batch_is_larger_than_the_limit(world: InputWorld) -> None:
    world.fill(ROWS)
    async with world.open(batch_rows=7) as source:
        sizes = [len(batch.rows) for chunk in source.chunks(source.plan()) for batch in source.read(chunk, first=0)]
    assert max(sizes) == 7
    assert min(sizes) >= 1


async def test_different_inputs_have_different_fingerprints(world: InputWorld) -> None:
    fingerprints = set()
    changed: list[list[float]] = [*ROWS[:-1], [149, 99]]
    for rows in (ROWS, ROWS[:-1], changed):
        world.fill(rows)
        async with world.open() as source:
            fingerprints.add(source.fingerprint)
    assert len(fingerprints) == 3


async def test_an_unchanged_input_passes_verification(world: InputWorld) -> None:
    world.fill(ROWS)
    async with world.open() as source:
        read_all(source)
        source.verify()


async def test_an_empty_input_has_no_records(world: InputWorld) -> None:
    world.fill([])
    async with world.open() as source:
        assert source.plan().total == 0
        assert read_all(source) == []


async def test_an_input_may_have_one_record(world: InputWorld) -> None:
    world.fill(ROWS[:1])
    async with world.open() as source:
        assert read_all(source) == [(0, [0, 0.0])]


async def test_a_record_with_other_values_than_numbers_is_an_input_error(world: InputWorld) -> None:
    bad: list[list[object]] = [[1, "x"]]
    world.fill([*ROWS, *bad])
    with pytest.raises(InputError):
        async with world.open() as source:
            read_all(source)


async def test_an_invalid_storage_object_is_reported_with_its_field(world: InputWorld) -> None:
    with pytest.raises(ContractError, match=rf"^input\.{world.label}\."):
        async with world.open_wrong():
            pass

"""What every input store must do."""

from contextlib import suppress
from typing import Final

import pytest

from inferrun.plugins import Chunk, ContractError, InputError, Source
from inferrun.plugins.testing.worlds import InputWorld, values_in

ROWS: Final[list[list[float]]] = [[index, index / 2] for index in range(150)]
SMALL: Final = {"chunk_bytes": 40}


def read_all(source: Source) -> list[tuple[int, object]]:
    """Read all records with their indexes, chunk by chunk."""
    return [
        (chunk.first + at, record)
        for chunk in source.plan().chunks
        for at, record in enumerate(
            record for block in source.read(chunk) for record in values_in(block.records)
        )
    ]


class InputStoreTests(InputWorld):
    """Tests of an input store."""

    async def test_every_record_is_read_once_in_order_with_its_index_and_passes_verification(
        self, world: InputWorld
    ) -> None:
        world.fill(ROWS)
        async with world.open(**SMALL) as source:
            assert source.plan().total == 150
            assert read_all(source) == list(enumerate(ROWS))
            source.verify()

    async def test_every_attempt_divides_the_same_input_into_the_same_chunks(
        self, world: InputWorld
    ) -> None:
        world.fill(ROWS)
        seen: list[tuple[str, list[Chunk]]] = []
        for _ in range(2):
            async with world.open(**SMALL) as source:
                seen.append((source.fingerprint, list(source.plan().chunks)))
        assert seen[0] == seen[1]
        chunks = seen[0][1]
        assert len(chunks) > 3
        assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
        assert [chunk.first for chunk in chunks[1:]] == [chunk.stop for chunk in chunks[:-1]]
        assert all(chunk.records > 0 for chunk in chunks)

    async def test_an_attempt_can_use_the_plan_of_another(self, world: InputWorld) -> None:
        world.fill(ROWS)
        async with world.open(**SMALL) as source:
            plan = source.plan()
            expected = [
                [row for block in source.read(chunk) for row in values_in(block.records)]
                for chunk in plan.chunks
            ]
        async with world.open(chunk_bytes=1000) as source:
            assert world.has_fixed_chunks or source.plan() != plan
            if source.abilities.adopt:
                source.abilities.adopt(plan)
            found = [
                [row for block in source.read(chunk) for row in values_in(block.records)]
                for chunk in plan.chunks
            ]
        assert found == expected
        assert [len(rows) for rows in found] == [chunk.records for chunk in plan.chunks]

    async def test_a_chunk_can_be_read_alone_and_repeatedly(self, world: InputWorld) -> None:
        world.fill(ROWS)
        async with world.open(**SMALL) as source:
            chunks = source.plan().chunks
            once = [values_in(block.records) for block in source.read(chunks[2])]
            list(source.read(chunks[0]))
            assert [values_in(block.records) for block in source.read(chunks[2])] == once
            assert sum(map(len, once)) > 0

    async def test_different_inputs_have_different_fingerprints(self, world: InputWorld) -> None:
        fingerprints = set()
        changed: list[list[float]] = [*ROWS[:-1], [149, 99]]
        for rows in (ROWS, ROWS[:-1], changed):
            world.fill(rows)
            async with world.open() as source:
                fingerprints.add(source.fingerprint)
        assert len(fingerprints) == 3

    @pytest.mark.parametrize("count", [0, 1])
    async def test_an_input_may_have_no_record_or_one(self, world: InputWorld, count: int) -> None:
        world.fill(ROWS[:count])
        async with world.open() as source:
            assert source.plan().total == count
            assert read_all(source) == list(enumerate(ROWS[:count]))

    async def test_a_record_with_other_values_than_numbers_is_an_error_of_the_record_or_of_the_input(
        self,
        world: InputWorld,
    ) -> None:
        bad: list[list[object]] = [[1, "x"]]
        world.fill([*ROWS, *bad])
        with suppress(InputError):
            async with world.open() as source:
                blocks = [
                    (chunk.first, block)
                    for chunk in source.plan().chunks
                    for block in source.read(chunk)
                ]
            assert sum(len(block.errors) for _, block in blocks) == 1
            assert len(blocks[-1][1].records) - 1 in blocks[-1][1].errors

    async def test_an_invalid_storage_object_is_reported_with_its_field(
        self, world: InputWorld
    ) -> None:
        with pytest.raises(ContractError, match=rf"^input\.{world.label}\."):
            async with world.open_wrong():
                pass

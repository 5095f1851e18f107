"""Requests are cut from blocks, across the borders of blocks, completely and in order."""

import itertools
import random

import pytest

from inferrun.formats.record_texts import copied_texts
from inferrun.plugins import Batch, Block, CustomId, JsonRecords, RecordError
from inferrun_runner.flow.batching import Batching
from tests.unit.runner.batches import decoded, records


def cut(
    sizes: list[int], *, wanted: int, max_bytes: int = 1 << 20, ids: bool = False
) -> list[Batch]:
    """The requests that are cut from blocks of these sizes."""
    batching = Batching(lambda: wanted, max_bytes=max_bytes)
    requests: list[Batch] = []
    first = 7
    for size in sizes:
        values = range(first, first + size)
        some: list[CustomId] = [f"id-{value}" for value in values]
        batching.add(Block(records([value] for value in values), some if ids else ()), first=first)
        requests += batching.full()
        first += size
    return [*requests, *batching.rest()]


@pytest.mark.parametrize("seed", range(20))
def test_every_record_is_in_one_request_in_order(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    sizes = [chance.randint(1, 50) for _ in range(chance.randint(1, 20))]
    requests = cut(
        sizes, wanted=chance.randint(1, 60), max_bytes=chance.choice([1, 200, 1 << 20]), ids=True
    )
    found = [value for request in requests for value in decoded(request)]
    assert found == [[value] for value in range(7, 7 + sum(sizes))]
    assert [one for request in requests for one in request.ids] == [
        f"id-{value}" for value in range(7, 7 + sum(sizes))
    ]
    assert [request.first for request in requests] == [
        7,
        *itertools.accumulate((len(one) for one in requests[:-1]), initial=7),
    ][1:]


@pytest.mark.parametrize(
    ("sizes", "wanted", "max_bytes", "found"),
    [([3, 3, 3, 3], 5, 1 << 20, [5, 5, 2]), ([10], 100, 100, [2] * 5), ([3], 100, 1, [1, 1, 1])],
    ids=["requests span blocks", "they are limited in bytes", "they have at least one record"],
)
def test_the_size_of_requests(
    sizes: list[int], wanted: int, max_bytes: int, found: list[int]
) -> None:
    requests = cut(sizes, wanted=wanted, max_bytes=max_bytes)
    assert [len(request) for request in requests] == found
    assert {request.ids for request in requests} == {()}


def test_what_is_copied_stays_with_its_record_beside_a_block_without_any() -> None:
    batching = Batching(lambda: 3, max_bytes=1 << 20)
    batching.add(Block(records([[0]]), errors={0: RecordError("invalid_input", "bad")}), first=0)
    batching.add(Block(records([[1], [2]]), copied=JsonRecords([b'"n":1', b'"n":2'])), first=1)
    (request,) = batching.full()
    assert copied_texts(request) == [b"", b'"n":1', b'"n":2']


def test_a_gap_between_chunks_is_noticed() -> None:
    batching = Batching(lambda: 10, max_bytes=1000)
    assert not batching.has_gap(5)
    batching.add(Block(records([[1], [2]])), first=0)
    assert not batching.has_gap(2)
    assert batching.has_gap(3)

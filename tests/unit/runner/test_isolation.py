"""Which record is blamed for requests without a response, and which is not."""

import asyncio
import random
from collections.abc import Callable

import pytest

from inferrun.plugins import Batch, Fault, FaultKind, InferenceError, Limits, Results
from runner.attempts import Attempts
from runner.doubt import Doubt
from runner.isolation import Isolation, Part
from runner.tuned_slots import TunedSlots
from tests.unit.runner.batches import batch, decoded, results

LOST = Fault(InferenceError("lost"), kind=FaultKind.LOST)
EXAMPLE = batch([-1], first=10_000)


def isolation_of(
    is_lost: Callable[[list[object]], bool],
    *,
    downtime: int,
    has_example: bool = True,
    report: Callable[[str], None] = lambda _: None,
) -> Isolation:
    """A server that loses some requests, and after each of them as many others as `downtime`."""
    down = 0

    async def predict(sent: Batch) -> Results:
        nonlocal down
        await asyncio.sleep(0)
        if down:
            down -= 1
            raise Fault(InferenceError("refused"), kind=FaultKind.UNAVAILABLE, was_sent=False)
        if is_lost(decoded(sent)):
            down = downtime
            raise LOST
        return results(decoded(sent))

    doubt = Doubt()
    if has_example:
        doubt.resolve(EXAMPLE, results([-1]))
    slots = TunedSlots(Limits(concurrency=4))
    return Isolation(predict, slots, doubt, budget=lambda: 5.0, first_wait=lambda: 0.001, report=report)


def blamed(parts: list[Part]) -> list[object]:
    """The records that are to blame."""
    return [one for part in parts if isinstance(part.found, Fault) for one in decoded(part.batch)]


async def resolved(isolation: Isolation, suspect: Batch) -> list[Part]:
    async with asyncio.timeout(20):
        return await isolation.resolve(suspect, LOST, Attempts(suspect), patience=5.0)


@pytest.mark.parametrize("has_example", [True, False])
@pytest.mark.parametrize("downtime", [0, 3])
@pytest.mark.parametrize("bad", [{0}, {99}, {17, 18, 70}])
async def test_the_records_that_are_lost_are_blamed(bad: set[int], downtime: int, has_example: bool) -> None:  # noqa: FBT001
    isolation = isolation_of(lambda sent: not bad.isdisjoint(sent), downtime=downtime, has_example=has_example)
    parts = await resolved(isolation, batch(range(100)))
    assert blamed(parts) == sorted(bad)
    answered = {one for part in parts if isinstance(part.found, Results) for one in decoded(part.found)}
    assert answered == set(range(100)) - bad


async def test_a_large_batch_costs_few_losses() -> None:
    lost: list[int] = []

    def is_lost(sent: list[object]) -> bool:
        lost.extend([len(sent)] if 617 in sent else [])
        return 617 in sent

    parts = await resolved(isolation_of(is_lost, downtime=1), batch(range(1000)))
    assert (blamed(parts), lost) == ([617], [1000, 32, 1, 1, 1])


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.6])
async def test_a_server_that_loses_requests_at_random_costs_no_record(rate: float) -> None:
    chance = random.Random(7)  # noqa: S311  not for security
    for _ in range(30):
        isolation = isolation_of(lambda _: chance.random() < rate, downtime=0)
        try:
            parts = await resolved(isolation, batch(range(8)))
        except Fault:
            continue  # the attempt ends, which costs no record either
        assert blamed(parts) == []


async def test_a_server_that_stays_away_costs_no_record() -> None:
    isolation = isolation_of(lambda sent: sent != [-1], downtime=10**9)
    with pytest.raises(Fault, match="refused"):
        await resolved(isolation, batch([1, 2]))


async def test_a_server_that_answers_nothing_costs_no_record() -> None:
    isolation = isolation_of(lambda _: True, downtime=0, has_example=False)
    with pytest.raises(Fault, match="lost"):
        await resolved(isolation, batch([1, 2]))


async def test_only_one_suspect_is_tried_until_a_record_is_found() -> None:
    """The others were lost with it."""
    isolation = isolation_of(lambda sent: 3 in sent, downtime=1)
    found = await asyncio.gather(*(resolved(isolation, batch([one], first=one)) for one in (3, 4, 5)))
    assert [part.found if part.found is None else blamed([part]) for (part,) in found] == [[3], None, None]


@pytest.mark.parametrize(
    ("suspect", "records"),
    [
        (batch(range(8), first=40), "records 40 to 47 get no response, so one of them is searched for"),
        (batch([5], first=5), "record 5 get no response, so it is sent alone"),
    ],
)
async def test_the_search_for_a_record_is_reported_while_it_lasts(suspect: Batch, records: str) -> None:
    notes: list[str] = []
    await resolved(isolation_of(lambda sent: 5 in sent, downtime=1, report=notes.append), suspect)
    assert notes == [f"requests with {records}, and the others wait", ""]


async def test_a_search_in_vain_is_not_reported_any_more() -> None:
    notes: list[str] = []
    with pytest.raises(Fault, match="refused"):
        await resolved(isolation_of(lambda sent: sent != [-1], downtime=10**9, report=notes.append), batch([1, 2]))
    assert notes[-1] == ""

"""Records that are the same are sent once, whatever the order in which requests end."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from inferrun.formats.record_keys import record_keys
from inferrun.plugins import Batch, JsonRecords, RecordError, Results
from inferrun.runner_report import TokenUsage
from inferrun_runner.sending.answers import Answers
from inferrun_runner.sending.duplicates import Duplicates

ONE = TokenUsage(prompt_tokens=1, completion_tokens=0, total_tokens=1)


class Model:
    """Doubles numbers, as slowly as chance wants; multiples of 5 fail."""

    def __init__(self, seed: int) -> None:
        self.sent = Counter[bytes]()
        self._chance = random.Random(seed)  # noqa: S311  not for security

    async def predict(self, batch: Batch) -> Results:
        assert isinstance(batch.records, JsonRecords)
        texts = list(batch.records.texts)
        self.sent.update(texts)
        for _ in range(self._chance.randrange(5)):
            await asyncio.sleep(0)
        errors = {
            at: RecordError("rejected", "a multiple of 5")
            for at, text in enumerate(texts)
            if int(text) % 5 == 0
        }
        usage = TokenUsage(prompt_tokens=len(texts), completion_tokens=0, total_tokens=len(texts))
        return Results(JsonRecords([b"%d" % (2 * int(text)) for text in texts]), errors, usage)


def batch_of(first: int, numbers: list[int], *, without_key: frozenset[int] = frozenset()) -> Batch:
    records = JsonRecords([b"%d" % number for number in numbers])
    keys = [
        None if number in without_key else key
        for number, key in zip(numbers, record_keys(records), strict=True)
    ]
    return Batch(first, records, keys=keys)


def duplicates_in(folder: Path) -> Duplicates:
    return Duplicates(Answers(folder, limit=1 << 30), note_sent=lambda _: None)


@pytest.mark.parametrize("seed", range(20))
async def test_each_record_is_sent_once_and_all_have_their_predictions(
    seed: int, tmp_path: Path
) -> None:
    chance, model = random.Random(seed), Model(seed)  # noqa: S311  not for security
    duplicates = duplicates_in(tmp_path)
    size, most = chance.choice((1, 3, 10)), chance.choice((7, 40, 200))
    numbers = [chance.randrange(most) for _ in range(300)]
    batches = [batch_of(at, numbers[at : at + size]) for at in range(0, 300, size)]
    found = await asyncio.gather(*(duplicates.predict(one, model.predict) for one in batches))
    values = [
        text for one in found if isinstance(one.values, JsonRecords) for text in one.values.texts
    ]
    assert values == [b"%d" % (2 * number) for number in numbers]
    failed = [
        batch.first + at for batch, one in zip(batches, found, strict=True) for at in one.errors
    ]
    assert failed == [at for at, number in enumerate(numbers) if number % 5 == 0]
    for number, times in Counter(numbers).items():
        assert model.sent[b"%d" % number] == (times if number % 5 == 0 else 1), "no error is shared"
    assert duplicates.found == len(numbers) - sum(model.sent.values())
    assert sum(one.usage.total_tokens for one in found) == sum(model.sent.values())


async def test_records_without_a_key_are_all_sent(tmp_path: Path) -> None:
    model, duplicates = Model(0), duplicates_in(tmp_path)
    without = frozenset({3})
    for first in (0, 4):
        await duplicates.predict(batch_of(first, [1, 3, 3, 2], without_key=without), model.predict)
    assert model.sent == {b"1": 1, b"2": 1, b"3": 4}


async def test_an_invalid_record_is_neither_sent_nor_an_answer(tmp_path: Path) -> None:
    model, duplicates = Model(0), duplicates_in(tmp_path)
    wrong = RecordError("invalid_input", "not valid")
    batch = batch_of(0, [1, 1])
    batch = Batch(0, batch.records, keys=batch.keys, errors={0: wrong})
    seen = list[Batch]()

    async def predict(part: Batch) -> Results:
        seen.append(part)
        results = await model.predict(part)
        return Results(results.values, part.errors, results.usage)

    results = await duplicates.predict(batch, predict)
    assert results.errors == {0: wrong}
    assert [dict(part.errors) for part in seen] == [{0: wrong}]


async def test_if_the_first_one_ends_with_an_exception_the_next_one_is_sent(tmp_path: Path) -> None:
    model, duplicates = Model(0), duplicates_in(tmp_path)
    is_waiting = asyncio.Event()

    async def fail(_: Batch) -> Results:
        await is_waiting.wait()
        raise OSError("gone")

    first = asyncio.create_task(duplicates.predict(batch_of(0, [1]), fail))
    await asyncio.sleep(0)
    second = asyncio.create_task(duplicates.predict(batch_of(1, [1]), model.predict))
    await asyncio.sleep(0)
    is_waiting.set()
    with pytest.raises(OSError, match="gone"):
        await first
    assert len(await second) == 1
    assert model.sent == {b"1": 1}


async def test_who_waits_may_be_cancelled(tmp_path: Path) -> None:
    model, duplicates = Model(0), duplicates_in(tmp_path)
    is_due = asyncio.Event()

    async def slow(batch: Batch) -> Results:
        await is_due.wait()
        return await model.predict(batch)

    first = asyncio.create_task(duplicates.predict(batch_of(0, [1]), slow))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(duplicates.predict(batch_of(1, [1]), model.predict))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    is_due.set()
    assert len(await first) == 1
    assert len(await duplicates.predict(batch_of(2, [1]), model.predict)) == 1
    assert model.sent == {b"1": 1}


async def test_a_batch_with_nothing_to_send_makes_room_for_the_next(tmp_path: Path) -> None:
    noted = list[int]()
    duplicates = Duplicates(
        Answers(tmp_path, limit=1 << 30), note_sent=lambda batch: noted.append(batch.first)
    )
    is_due = asyncio.Event()

    async def slow(batch: Batch) -> Results:
        await is_due.wait()
        return await Model(0).predict(batch)

    tasks = [asyncio.create_task(duplicates.predict(batch_of(at, [1]), slow)) for at in range(3)]
    await asyncio.sleep(0)
    assert noted == [1, 2]
    is_due.set()
    await asyncio.gather(*tasks)

"""Predictions of an earlier run take the place of requests."""

import io
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from inferrun.formats.jsonl.format import JSONL
from inferrun.formats.openai import OPENAI
from inferrun.plugins import (
    Batch,
    Chunk,
    InputPlan,
    JsonRecords,
    RecordError,
    RecordFormat,
    Results,
    StoredResult,
)
from inferrun_runner.sending.recall import CHUNKS_HELD, PredictionsByIndex, Recall

CHUNKS = tuple(
    Chunk(index, 0, first, stop, first, stop - first)
    for index, (first, stop) in enumerate(itertools.pairwise((0, 7, 8, 20, 31, 60, 61, 100)))
)


class Earlier:
    """A run of 100 records whose records divisible by 3 failed, and whose chunk 3 is not
    committed."""

    plan = InputPlan("f", CHUNKS)
    kept = 0

    def __init__(self) -> None:
        self.read: list[int] = []

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        self.read.append(chunk)
        one = CHUNKS[chunk]
        return (
            {}
            if chunk == 3
            else {index: b"%d" % -index for index in range(one.first, one.stop) if index % 3}
        )

    def results(self) -> Iterator[StoredResult]:
        raise AssertionError("the input is the same")


def batch(first: int, stop: int) -> Batch:
    return Batch(first, JsonRecords([b"[%d]" % index for index in range(first, stop)]))


@pytest.mark.parametrize("seed", range(10))
async def test_known_and_new_predictions_are_merged_in_order(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    recall = Recall(PredictionsByIndex(Earlier()).of)
    cuts = sorted({0, 100, *chance.sample(range(1, 100), 6)})
    for first, stop in itertools.pairwise(cuts):
        unknown = [index for index in range(first, stop) if index % 3 == 0 or 20 <= index < 31]
        asked: list[bytes] = []

        async def predict(
            part: Batch, asked: list[bytes] = asked, unknown: Sequence[int] = unknown
        ) -> Results:
            assert isinstance(part.records, JsonRecords)
            asked += part.records.texts
            return Results(
                JsonRecords([b"%d" % index for index in unknown]),
                {0: RecordError("rejected", "still bad")},
            )

        merged = await recall.predict(batch(first, stop), predict)
        assert asked == [b"[%d]" % index for index in unknown]
        assert isinstance(merged.values, JsonRecords)
        assert [int(text) for text in merged.values.texts] == [
            index if index in unknown else -index for index in range(first, stop)
        ]
        assert set(merged.errors) == ({unknown[0] - first} if unknown else set())


async def test_few_chunks_are_held_and_each_is_read_once() -> None:
    async def answer(part: Batch) -> Results:
        return Results(part.records)

    earlier = Earlier()
    known = PredictionsByIndex(earlier)
    recall = Recall(known.of)
    for first in range(0, 100, 5):
        await recall.predict(batch(first, first + 5), answer)
    assert earlier.read == list(range(len(CHUNKS)))
    assert known._read.cache_info().currsize <= CHUNKS_HELD


def predictions(form: RecordFormat, content: bytes) -> dict[int, bytes]:
    assert form.abilities.readable is not None
    rows = form.abilities.readable.read(io.BytesIO(content), None)
    return {row.index: row.prediction for row in rows if row.error is None}


def test_the_predictions_in_a_result_file_are_read_as_they_were_written() -> None:
    content = (
        b'{"index":0,"prediction":[1.50,null]}\n'
        b'{"index":1,"custom_id":"a,\\"prediction\\":7","prediction":{"prediction":1}}\n'
        b'{"index":2,"error":{"code":"rejected","message":"x"}}\n'
        b'{"index":3,"custom_id":9,"prediction":12345678901234567890123}\n'
    )
    assert predictions(JSONL, content) == {
        0: b"[1.50,null]",
        1: b'{"prediction":1}',
        3: b"12345678901234567890123",
    }


@pytest.mark.parametrize("content", [b"rubbish\n", b'{"index":"a","prediction":1}\n', b"{}\n"])
def test_what_is_no_result_file_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match="a line is not a res"):
        predictions(JSONL, content)
    with pytest.raises(ValueError, match="a line is not a res"):
        predictions(OPENAI, content)

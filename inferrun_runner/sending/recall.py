"""Takes the predictions of an earlier run instead of asking the model again (`retryOf`)."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from inferrun.formats.record_errors import with_known
from inferrun.plugins import Batch, EarlierResults, Results

Predict: TypeAlias = Callable[[Batch], Awaitable[Results]]
"""Finds the results of a batch."""

CHUNKS_HELD: Final = 4
"""Chunks whose predictions are held: batches arrive nearly in order, and a batch rarely spans more
than two chunks."""


class PredictionsByIndex:
    """The predictions of a run with the same input, read chunk by chunk."""

    def __init__(self, earlier: EarlierResults) -> None:
        self._chunks = earlier.plan.chunks
        self._read = lru_cache(CHUNKS_HELD)(earlier.predictions)

    def of(self, batch: Batch) -> Mapping[int, bytes]:
        """Return the known predictions of a batch, by position. Blocks. Raises OutputError."""
        stop = batch.first + len(batch)
        begin = bisect_right(self._chunks, batch.first, key=lambda chunk: chunk.stop)
        end = bisect_left(self._chunks, stop, key=lambda chunk: chunk.first)
        known: dict[int, bytes] = {}
        for chunk in self._chunks[begin:end]:
            found = self._read(chunk.index)
            indexes = range(max(chunk.first, batch.first), min(chunk.stop, stop))
            known |= {index - batch.first: found[index] for index in indexes if index in found}
        return known


class Recall:
    """Answers for the model as far as predictions are known."""

    def __init__(self, known: Callable[[Batch], Mapping[int, bytes]]) -> None:
        """`known` returns the known predictions of a batch as JSON texts, by position. It blocks,
        and is called once at a time."""
        self._known = known
        self._reading = asyncio.Lock()

    async def predict(self, batch: Batch, predict: Predict) -> Results:
        """Return the known predictions of a batch with those of the other records. Raises
        OutputError.

        `predict` gets these, in order, if there are any; their indexes are not consecutive.
        """
        async with self._reading:
            known = await asyncio.to_thread(self._known, batch)
        return await with_known(batch, known, predict)

"""Takes the predictions of an earlier run instead of asking the model again (`retryOf`)."""

import asyncio
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from inferrun.plugins import Batch, Chunk, EarlierResults, JsonRecords, Results
from runner.formats.json_text import json_texts
from runner.formats.record_errors import selected

CHUNKS_HELD: Final = 4
"""Chunks whose predictions are held: batches arrive nearly in order, and a batch rarely spans more than two chunks."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A batch of which some predictions are known, by their position."""

    batch: Batch
    known: Mapping[int, bytes]

    @property
    def unknown(self) -> Batch | None:
        """The records to send, in order; None if there are none. Their indexes are not consecutive."""
        places = self._places
        if not places:
            return None
        if len(places) == len(self.batch):
            return self.batch
        errors = {to: self.batch.errors[at] for to, at in enumerate(places) if at in self.batch.errors}
        return Batch(first=self.batch.first, records=selected(self.batch.records, places), errors=errors)

    def merged(self, sent: Results | None) -> Results:
        """The results of the whole batch."""
        texts = [self.known.get(at, b"") for at in range(len(self.batch))]
        if sent is None:
            return Results(JsonRecords(texts))
        places = self._places
        for at, text in zip(places, json_texts(sent.values), strict=True):
            texts[at] = text
        errors = {places[at]: error for at, error in sent.errors.items()}
        return Results(JsonRecords(texts), errors, sent.usage)

    @property
    def _places(self) -> list[int]:
        return [at for at in range(len(self.batch)) if at not in self.known]


class Recall:
    """The predictions of an earlier run, read chunk by chunk."""

    def __init__(self, earlier: EarlierResults) -> None:
        self._earlier = earlier
        self._chunks = earlier.plan.chunks
        self._held: OrderedDict[int, Mapping[int, bytes]] = OrderedDict()
        self._reading = asyncio.Lock()

    async def recall(self, batch: Batch) -> Recalled:
        """Find the known predictions of a batch. Raises OutputError."""
        known: dict[int, bytes] = {}
        stop = batch.first + len(batch)
        for chunk in _overlapping(self._chunks, batch.first, stop):
            found = await self._predictions(chunk.index)
            begin, end = max(chunk.first, batch.first), min(chunk.stop, stop)
            known |= {index - batch.first: found[index] for index in range(begin, end) if index in found}
        return Recalled(batch, known)

    async def _predictions(self, chunk: int) -> Mapping[int, bytes]:
        async with self._reading:
            if chunk not in self._held:
                self._held[chunk] = await asyncio.to_thread(self._earlier.predictions, chunk)
                while len(self._held) > CHUNKS_HELD:
                    self._held.popitem(last=False)
            self._held.move_to_end(chunk)
            return self._held[chunk]


def _overlapping(chunks: Sequence[Chunk], first: int, stop: int) -> Sequence[Chunk]:
    begin = bisect_right(chunks, first, key=lambda chunk: chunk.stop)
    end = bisect_left(chunks, stop, key=lambda chunk: chunk.first)
    return chunks[begin:end]

"""The first records of an input, as an input of its own."""

from collections.abc import Iterator
from dataclasses import replace

from inferrun.plugins import Block, Chunk, InputPlan, Source, SourceAbilities


class FirstRecords:
    """A source of which only the first `limit` records are read."""

    def __init__(self, source: Source, limit: int) -> None:
        self._source = source
        self._limit = limit

    @property
    def fingerprint(self) -> str:
        return self._source.fingerprint

    @property
    def abilities(self) -> SourceAbilities:
        return self._source.abilities

    def plan(self) -> InputPlan:
        """The plan of the source up to the limit."""
        whole = self._source.plan()
        chunks = [
            replace(one, records=min(one.records, self._limit - one.first))
            for one in whole.chunks
            if one.first < self._limit
        ]
        return replace(whole, chunks=tuple(chunks))

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the records of a chunk that are below the limit."""
        left = chunk.records
        for block in self._source.read(chunk):
            yield block if len(block.records) <= left else block.part(0, left)
            left -= len(block.records)
            if left <= 0:
                return

    def verify(self) -> None:
        self._source.verify()

"""The stages between the seams: read, send, write, commit, each bounded, in the input's order.

At most `concurrency` requests are under way, and at most twice as many batches are held: a slow stage holds the ones before
it back, so memory depends on the limits and not on the input. Results are written and chunks committed in order, which is
what makes the committed chunks a prefix of the input. Nothing is retried here: protocols and stores do that themselves.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runner.errors import InferenceError
from runner.seams import ModelProtocol, OutputStore, Source
from runner.values import Chunk, Counts, Json, Memory, Records


@dataclass(frozen=True, slots=True)
class _Sent:
    """A batch whose answer is under way."""

    records: Records
    answer: asyncio.Task[Sequence[Json]]


class Pipeline:
    """Predicts the chunks of an input that are not committed yet."""

    def __init__(
        self,
        source: Source,
        model: ModelProtocol,
        sink: OutputStore,
        *,
        concurrency: int,
        tell: Callable[[Counts], None],
    ) -> None:
        self._source = source
        self._model = model
        self._sink = sink
        self._tell = tell
        self._slots = asyncio.Semaphore(concurrency)
        self._under_way: asyncio.Queue[_Sent | Chunk | None] = asyncio.Queue(maxsize=2 * concurrency)

    async def run(self, chunks: Sequence[Chunk], memory: Memory, *, total: int) -> Counts:
        """Predict and commit what is missing; the counts of the whole run are returned."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(chunks[memory.committed_chunks :], memory.committed_records, group))
            writing = group.create_task(self._write(Counts(total=total, completed=memory.committed_records)))
        return writing.result()

    async def _read(self, chunks: Sequence[Chunk], first: int, group: asyncio.TaskGroup) -> None:
        for chunk in chunks:
            batches = self._source.read(chunk, first=first)
            while (records := await asyncio.to_thread(_next, batches)) is not None:
                first += len(records.rows)
                await self._under_way.put(_Sent(records, group.create_task(self._send(records))))
            await self._under_way.put(chunk)
        await self._under_way.put(None)

    async def _send(self, records: Records) -> Sequence[Json]:
        async with self._slots:
            predictions = await self._model.predict(records)
        if len(predictions) != len(records.rows):
            raise InferenceError(
                f"the model server answered {len(predictions)} predictions for {len(records.rows)} records"
            )
        return predictions

    async def _write(self, counts: Counts) -> Counts:
        self._tell(counts)
        while (item := await self._under_way.get()) is not None:
            if isinstance(item, Chunk):
                await self._sink.commit(item)
            else:
                await self._sink.write(item.records, await item.answer)
                counts = Counts(total=counts.total, completed=counts.completed + len(item.records.rows))
                self._tell(counts)
        return counts


def _next(batches: Iterator[Records]) -> Records | None:
    return next(batches, None)

"""The stages between the seams: read, send, write, commit. Each is bounded and keeps the input's order.

At most `concurrency` requests are in flight and at most twice as many batches are held. A slow stage blocks the stages before it,
so memory depends on the limits and not on the input. Results are written and chunks committed in order, so the committed chunks
are always a prefix of the input. Nothing is retried here; protocols and stores retry.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    Counts,
    InferenceError,
    Json,
    ModelProtocol,
    OutputStore,
    Source,
)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A batch with its pending predictions."""

    batch: Batch
    predictions: asyncio.Task[Sequence[Json]]


class Pipeline:
    """Predicts and commits the chunks of an input that are not committed yet."""

    def __init__(
        self,
        source: Source,
        model: ModelProtocol,
        sink: OutputStore,
        *,
        concurrency: int,
        report: Callable[[Counts], None],
    ) -> None:
        self._source = source
        self._model = model
        self._sink = sink
        self._report = report
        self._slots = asyncio.Semaphore(concurrency)
        self._pending: asyncio.Queue[_Sent | Chunk | None] = asyncio.Queue(maxsize=2 * concurrency)

    async def run(self, chunks: Sequence[Chunk], checkpoint: Checkpoint, *, total: int) -> Counts:
        """Predict and commit the missing chunks, and return the counts of the whole run."""
        missing = chunks[checkpoint.committed_chunks :]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(missing, checkpoint.committed_records, group))
            writing = group.create_task(self._write(Counts(total=total, completed=checkpoint.committed_records)))
        return writing.result()

    async def _read(self, chunks: Sequence[Chunk], first: int, group: asyncio.TaskGroup) -> None:
        for chunk in chunks:
            batches = self._source.read(chunk, first=first)
            while (batch := await asyncio.to_thread(_next, batches)) is not None:
                first += len(batch.rows)
                await self._pending.put(_Sent(batch, group.create_task(self._send(batch))))
            await self._pending.put(chunk)
        await self._pending.put(None)

    async def _send(self, batch: Batch) -> Sequence[Json]:
        async with self._slots:
            predictions = await self._model.predict(batch)
        if len(predictions) != len(batch.rows):
            raise InferenceError(
                f"the model server returned {len(predictions)} predictions for {len(batch.rows)} records"
            )
        return predictions

    async def _write(self, counts: Counts) -> Counts:
        self._report(counts)
        while (item := await self._pending.get()) is not None:
            if isinstance(item, Chunk):
                await self._sink.commit(item)
            else:
                await self._sink.write(item.batch, await item.predictions)
                counts = Counts(total=counts.total, completed=counts.completed + len(item.batch.rows))
                self._report(counts)
        return counts


def _next(batches: Iterator[Batch]) -> Batch | None:
    return next(batches, None)

"""The stages between the seams: read, send, write, commit. Each is bounded and keeps the input's order.

Results are written and chunks committed in input order, so the committed chunks are always a prefix of the input. While a request
waits for a retry, later batches overtake it and are held in the reorder window until it has succeeded. A full window blocks the
reader, so memory depends on the limits and not on the input.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    Counts,
    Limits,
    ModelProtocol,
    OutputStore,
    Prediction,
    RecordError,
    ResultCounts,
    Source,
    count_predictions,
)
from runner.reorder_window import ReorderWindow
from runner.sender import Sender


@dataclass(frozen=True, slots=True)
class _Sent:
    """A batch with its pending predictions."""

    batch: Batch
    predictions: asyncio.Task[Sequence[Prediction]]


class Pipeline:
    """Predicts and commits the chunks of an input that are not committed yet."""

    def __init__(
        self,
        source: Source,
        model: ModelProtocol,
        sink: OutputStore,
        *,
        limits: Limits,
        report: Callable[[Counts], None],
    ) -> None:
        self._source = source
        self._sink = sink
        self._report = report
        self._window = ReorderWindow(limit=limits.window_bytes, minimum=2 * limits.concurrency)
        self._sender = Sender(model, self._window, limits=limits)
        self.first_record_error: RecordError | None = None
        self._pending: asyncio.Queue[_Sent | Chunk | None] = asyncio.Queue()  # bounded by the window

    async def run(self, chunks: Sequence[Chunk], checkpoint: Checkpoint, *, total: int) -> Counts:
        """Predict and commit the missing chunks, and return the counts of the whole run."""
        missing = chunks[checkpoint.committed_chunks :]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(missing, checkpoint.committed.total, group))
            writing = group.create_task(self._write(checkpoint.committed, total=total))
        results = writing.result()
        return Counts(total=total, completed=results.completed, failed=results.failed)

    async def _read(self, chunks: Sequence[Chunk], first: int, group: asyncio.TaskGroup) -> None:
        for chunk in chunks:
            batches = self._source.read(chunk, first=first)
            while (batch := await asyncio.to_thread(_next, batches)) is not None:
                first += len(batch.rows)
                await self._dispatch(batch, group)
            await self._pending.put(chunk)
        await self._pending.put(None)

    async def _dispatch(self, batch: Batch, group: asyncio.TaskGroup) -> None:
        await self._sender.wait_for_lookahead()
        for request in self._sender.divide(batch):
            await self._window.enter(request)
            self._sender.expect(request)
            self._pending.put_nowait(_Sent(request, group.create_task(self._sender.send(request))))
            await self._sender.wait_for_lookahead()

    async def _write(self, results: ResultCounts, *, total: int) -> ResultCounts:
        self._report_committed(results, total=total)
        while (item := await self._pending.get()) is not None:
            if isinstance(item, Chunk):
                await self._sink.commit(item)
                if self._sink.commits_chunks:
                    self._report_committed(results, total=total)
            else:
                predictions = await item.predictions
                await self._sink.write(item.batch, predictions)
                self._window.leave(predictions)
                self._observe(predictions)
                results += count_predictions(predictions)
        return results

    def _observe(self, predictions: Sequence[Prediction]) -> None:
        if self.first_record_error is None:
            errors = (one for one in predictions if isinstance(one, RecordError))
            self.first_record_error = next(errors, None)

    def _report_committed(self, results: ResultCounts, *, total: int) -> None:
        self._report(Counts(total=total, completed=results.completed, failed=results.failed))


def _next(batches: Iterator[Batch]) -> Batch | None:
    return next(batches, None)

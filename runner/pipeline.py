"""The stages between the seams: read, send, write, commit. Each is bounded and keeps the input's order.

At most `concurrency` requests are in flight. Results are written and chunks committed in input order, so the committed chunks are
always a prefix of the input. A request that waits for a retry occupies no slot: later batches overtake it and are held in the
reorder window until it has succeeded. A full window blocks the reader, so memory depends on the limits and not on the input.
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
    Limits,
    ModelProtocol,
    OutputStore,
    Prediction,
    ResultCounts,
    Source,
    count_predictions,
)
from runner.reorder_window import ReorderWindow
from runner.retries import first_wait_for, with_retries
from runner.slots import Slots

_SMOOTHING = 0.2
"""Weight of the latest request in the moving average of the requests' durations."""


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
        self._model = model
        self._sink = sink
        self._report = report
        self._retry_seconds = limits.retry_seconds
        self._slots = Slots(limits.concurrency)
        self._lookahead = limits.concurrency
        self._unsent: set[int] = set()
        self._read_on = asyncio.Event()
        self._window = ReorderWindow(limit=limits.window_bytes, minimum=2 * limits.concurrency)
        self._pending: asyncio.Queue[_Sent | Chunk | None] = asyncio.Queue()  # bounded by the window
        self._duration: float | None = None

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
                await self._wait_for_lookahead()
                self._unsent.add(batch.first)
                await self._window.enter(batch)
                self._pending.put_nowait(_Sent(batch, group.create_task(self._send(batch))))
            await self._pending.put(chunk)
        await self._pending.put(None)

    async def _wait_for_lookahead(self) -> None:
        """Keep the reader only a few batches ahead of the requests, so that the window is used for reordering alone."""
        while len(self._unsent) >= self._lookahead:
            self._read_on.clear()
            await self._read_on.wait()

    async def _send(self, batch: Batch) -> Sequence[Prediction]:
        predictions = await with_retries(
            lambda: self._try(batch), budget=self._retry_seconds, first_wait=lambda: first_wait_for(self._duration)
        )
        if len(predictions) != len(batch.rows):
            raise InferenceError(
                f"the model server returned {len(predictions)} predictions for {len(batch.rows)} records"
            )
        self._window.add(batch, predictions)
        return predictions

    async def _try(self, batch: Batch) -> Sequence[Prediction]:
        while True:
            await self._window.wait_until_sendable(batch)
            async with self._slots.slot(batch.first):
                if self._window.is_sendable(batch):
                    self._unsent.discard(batch.first)
                    self._read_on.set()
                    return await self._predict(batch)

    async def _predict(self, batch: Batch) -> Sequence[Prediction]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        predictions = await self._model.predict(batch)
        self._observe(loop.time() - started)
        return predictions

    def _observe(self, duration: float) -> None:
        previous = duration if self._duration is None else self._duration
        self._duration = previous + _SMOOTHING * (duration - previous)

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
                results += count_predictions(predictions)
        return results

    def _report_committed(self, results: ResultCounts, *, total: int) -> None:
        self._report(Counts(total=total, completed=results.completed, failed=results.failed))


def _next(batches: Iterator[Batch]) -> Batch | None:
    return next(batches, None)

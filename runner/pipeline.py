"""The stages between the seams: read, send, write, commit. Each is bounded.

Results are written in input order, each chunk by its own writer. While a request waits for a retry, later ones overtake it and
are held in the reorder window until it has succeeded. A full window blocks the reader, so memory depends on the limits and not
on the input.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from inferrun.plugins import (
    NO_USAGE,
    Batch,
    Block,
    Checkpoint,
    Chunk,
    ChunkCommit,
    ChunkWriter,
    Counts,
    InputError,
    InputPlan,
    Limits,
    ModelProtocol,
    OutputStore,
    ResultCounts,
    Results,
    Source,
)
from runner.batching import Batching
from runner.error_budget import ErrorBudget
from runner.recall import Recall
from runner.reorder_window import ReorderWindow
from runner.sender import Sender


@dataclass(frozen=True, slots=True)
class _Sent:
    """A batch with its pending results."""

    batch: Batch
    results: asyncio.Task[Results]


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
        budget: ErrorBudget | None = None,
        recall: Recall | None = None,
    ) -> None:
        self._source = source
        self._sink = sink
        self._report = report
        self._budget = budget or ErrorBudget(total=0)
        self._window = ReorderWindow(limit=limits.window_bytes, minimum=lambda: 2 * self._sender.concurrency)
        self._sender = Sender(model, self._window, limits=limits, budget=self._budget, recall=recall)
        self._batching = Batching(self._sender.wanted_records, max_bytes=limits.batch_bytes)
        self._pending: asyncio.Queue[_Sent | None] = asyncio.Queue()  # bounded by the window

    async def run(self, plan: InputPlan, checkpoint: Checkpoint) -> Counts:
        """Predict and commit the missing chunks, and return the counts of the whole run.

        Raises TooManyErrors, alone or in a group, if more records fail than may.
        """
        missing = [chunk for chunk in plan.chunks if chunk.index not in checkpoint.committed]
        self._budget.begin(missing, checkpoint.committed, plan)
        progress = _Progress(total=plan.total, report=self._report_counts, reports_chunks=self._sink.commits_chunks)
        for commit in checkpoint.committed.values():
            progress.add(commit)
        progress.report()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(missing, group))
            group.create_task(self._write(missing, progress))
        return progress.counts

    def _report_counts(self, counts: Counts) -> None:
        sender = self._sender
        self._report(replace(counts, batch_records=sender.wanted_records(), concurrency=sender.concurrency))

    async def _read(self, chunks: Sequence[Chunk], group: asyncio.TaskGroup) -> None:
        for chunk in chunks:
            if self._batching.has_gap(chunk.first):
                await self._dispatch(self._batching.rest(), group)
            await self._read_chunk(chunk, group)
        await self._dispatch(self._batching.rest(), group)
        await self._pending.put(None)

    async def _read_chunk(self, chunk: Chunk, group: asyncio.TaskGroup) -> None:
        first = chunk.first
        blocks = self._source.read(chunk)
        while (block := await asyncio.to_thread(_next, blocks)) is not None:
            if first + len(block.records) > chunk.stop:
                break
            for part in _cut(block, first=first, at=self._budget.canary):
                await self._wait_for_canary(first, group)
                self._batching.add(part, first=first)
                first += len(part.records)
                await self._dispatch(self._batching.full(), group)
        if block is not None or first != chunk.stop:
            raise InputError(f"chunk {chunk.index} does not have {chunk.records} records any more; the input changed")

    async def _wait_for_canary(self, first: int, group: asyncio.TaskGroup) -> None:
        """Send nothing after the canary before it is known how many of its records failed."""
        if first >= self._budget.canary and not self._budget.is_canary_done:
            await self._dispatch(self._batching.rest(), group)
            await self._budget.canary_passed()

    async def _dispatch(self, requests: Iterator[Batch], group: asyncio.TaskGroup) -> None:
        await self._sender.wait_for_lookahead()
        for request in requests:
            await self._window.enter(request)
            self._sender.expect(request)
            self._pending.put_nowait(_Sent(request, group.create_task(self._sender.send(request))))
            await self._sender.wait_for_lookahead()

    async def _write(self, chunks: Sequence[Chunk], progress: "_Progress") -> None:
        writing = _ChunkWriting(self._sink, chunks, progress)
        while (item := await self._pending.get()) is not None:
            results = await item.results
            self._budget.add(item.batch, results)
            await writing.write(item.batch, results)
            self._window.leave(results)


class _ChunkWriting:
    """Divides the results among the writers of their chunks, and commits each chunk with its last result."""

    def __init__(self, sink: OutputStore, chunks: Sequence[Chunk], progress: "_Progress") -> None:
        self._sink = sink
        self._chunks = iter(chunks)
        self._progress = progress
        self._chunk: Chunk | None = None
        self._writer: ChunkWriter | None = None

    async def write(self, batch: Batch, results: Results) -> None:
        start = 0
        while start < len(batch):
            chunk, writer = self._current()
            stop = min(len(batch), chunk.stop - batch.first)
            await writer.write(batch.part(start, stop), results.part(start, stop))
            start = stop
            if batch.first + stop == chunk.stop:
                self._chunk = None
                self._progress.add(await writer.commit())
                self._progress.report_chunk()

    def _current(self) -> tuple[Chunk, ChunkWriter]:
        if self._chunk is None or self._writer is None:
            self._chunk = next(self._chunks)
            self._writer = self._sink.writer(self._chunk)
        return self._chunk, self._writer


class _Progress:
    """The counts of the committed chunks."""

    def __init__(self, *, total: int, report: Callable[[Counts], None], reports_chunks: bool) -> None:
        self._total = total
        self._report = report
        self._reports_chunks = reports_chunks
        self._results = ResultCounts(0)
        self._usage = NO_USAGE

    @property
    def counts(self) -> Counts:
        return Counts(self._total, self._results.completed, self._results.failed, self._usage)

    def add(self, commit: ChunkCommit) -> None:
        self._results += commit.counts
        self._usage += commit.usage

    def report(self) -> None:
        self._report(self.counts)

    def report_chunk(self) -> None:
        """Report the counts if a committed chunk is durable."""
        if self._reports_chunks:
            self.report()


def _cut(block: Block, *, first: int, at: int) -> Iterator[Block]:
    """Divide a block, whose first record has the index `first`, before the record `at` if it contains that one."""
    before = at - first
    if not 0 < before < len(block.records):
        yield block
        return
    yield block.part(0, before)
    yield block.part(before, len(block.records))


def _next(blocks: Iterator[Block]) -> Block | None:
    return next(blocks, None)

"""The stages between the seams: read, send, write, commit. Each is bounded.

Results are written in input order, each chunk by its own writer. While a request waits for a retry, later ones overtake it and
are held in the reorder window until it has succeeded. A full window blocks the reader, so memory depends on the limits and not
on the input.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from inferrun.plugins import (
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
    Results,
    Source,
)
from runner.flow.batching import Batching
from runner.flow.work import WholeWork, Work
from runner.sending.error_budget import ErrorBudget
from runner.sending.recall import Recall
from runner.sending.reorder_window import ReorderWindow
from runner.sending.sender import Sender

_INVALID_IN_A_ROW = 1000
"""Records without a valid one in between that end the run: then the rest of the input is of another form."""


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
        self._window = ReorderWindow(limit=limits.window_bytes, in_flight=lambda: self._sender.concurrency)
        self._sender = Sender(
            model, self._window, limits=limits, budget=self._budget, recall=recall, on_note=self._report_note
        )
        self._work: Work | None = None
        self._batching = Batching(self._sender.wanted_records, max_bytes=limits.batch_bytes)
        self._chunks: deque[Chunk] = deque()  # those of the pending results
        self._pending: asyncio.Queue[_Sent | None] = asyncio.Queue()  # bounded by the window
        self._invalid = 0

    async def run(self, plan: InputPlan, checkpoint: Checkpoint, work: Work | None = None) -> Counts:
        """Predict and commit the missing chunks, or those of `work`, and return the counts of the whole run.

        Raises TooManyErrors, alone or in a group, if more records fail than may.
        """
        missing = [chunk for chunk in plan.chunks if chunk.index not in checkpoint.committed]
        self._budget.begin(missing, checkpoint.committed, plan)
        if work is None:
            work = WholeWork(missing, total=plan.total)
            for chunk, commit in checkpoint.committed.items():
                work.add(chunk, commit)
        self._work = work
        self.report(work)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(work, group))
            group.create_task(self._write(work))
        return work.counts

    def report(self, work: Work) -> None:
        """Report the counts, and how requests are sent."""
        sender = self._sender
        records, concurrency = sender.wanted_records(), sender.concurrency
        self._report(replace(work.counts, batch_records=records, concurrency=concurrency, note=sender.note))

    def _report_note(self) -> None:
        if self._work is not None:
            self.report(self._work)

    async def _read(self, work: Work, group: asyncio.TaskGroup) -> None:
        is_more = True
        while is_more:
            while (chunk := await work.take()) is not None:
                if self._batching.has_gap(chunk.first):
                    await self._dispatch(self._batching.rest(), group)
                self._chunks.append(chunk)
                await self._read_chunk(chunk, group)
            await self._dispatch(self._batching.rest(), group)
            is_more = await work.wait_for_more()
        await self._pending.put(None)

    async def _read_chunk(self, chunk: Chunk, group: asyncio.TaskGroup) -> None:
        first = chunk.first
        blocks = self._source.read(chunk)
        while (block := await asyncio.to_thread(_next, blocks)) is not None:
            if first + len(block.records) > chunk.stop:
                break
            self._check_valid(block)
            for part in _cut(block, first=first, at=self._budget.canary):
                await self._wait_for_canary(first, group)
                self._batching.add(part, first=first)
                first += len(part.records)
                await self._dispatch(self._batching.full(), group)
        if block is not None or first != chunk.stop:
            raise InputError(f"chunk {chunk.index} does not have {chunk.records} records any more; the input changed")

    def _check_valid(self, block: Block) -> None:
        """Raise InputError if too many blocks in a row have no valid record, unless the contract says how many may fail."""
        self._invalid = self._invalid + len(block.errors) if len(block.errors) == len(block.records) else 0
        if self._invalid >= _INVALID_IN_A_ROW and not self._budget.is_limited:
            error = block.errors[min(block.errors)]
            raise InputError(f"{self._invalid} records in a row are not valid; {error.message}", is_retryable=False)

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

    async def _write(self, work: Work) -> None:
        writing = _ChunkWriting(
            self._sink, self._chunks, on_commit=lambda chunk, commit: self._add(work, chunk, commit)
        )
        while (item := await self._pending.get()) is not None:
            results = await item.results
            self._budget.add(item.batch, results)
            await writing.write(item.batch, results)
            self._window.leave(results)

    def _add(self, work: Work, chunk: Chunk, commit: ChunkCommit) -> None:
        """Count a chunk, and report it if it is durable."""
        work.add(chunk.index, commit)
        if self._sink.commits_chunks:
            self.report(work)


class _ChunkWriting:
    """Divides the results among the writers of their chunks, and commits each chunk with its last result."""

    def __init__(
        self, sink: OutputStore, chunks: deque[Chunk], *, on_commit: Callable[[Chunk, ChunkCommit], None]
    ) -> None:
        """`chunks` are those whose records were read, in the same order; it grows."""
        self._sink = sink
        self._chunks = chunks
        self._on_commit = on_commit
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
                self._on_commit(chunk, await writer.commit())

    def _current(self) -> tuple[Chunk, ChunkWriter]:
        if self._chunk is None or self._writer is None:
            self._chunk = self._chunks.popleft()
            self._writer = self._sink.writer(self._chunk)
        return self._chunk, self._writer


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

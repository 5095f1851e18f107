"""The stages between the seams: read, send, write, commit. Each is bounded.

Results are written in input order, each chunk by its own writer. While a request waits for a retry, later ones overtake it and
are held in the reorder window until it has succeeded. A full window blocks the reader, so memory depends on the limits and not
on the input.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from inferrun.formats.record_errors import invalid_of
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
    PipelinedStore,
    ResultCounts,
    Results,
    Source,
)
from runner.flow.batching import Batching
from runner.sending.error_budget import ErrorBudget
from runner.sending.recall import Recall
from runner.sending.reorder_window import ReorderWindow
from runner.sending.sender import Sender

_INVALID_IN_A_ROW = 1000
"""Records without a valid one in between that end the run: then the rest of the input is of another form."""


class Work(Protocol):
    """The chunks that are left to predict."""

    async def take(self) -> Chunk | None:
        """Return the next chunk, which no other Pod is known to predict; None if there is none at the moment."""

    async def wait_for_more(self) -> bool:
        """Wait until there may be another chunk; False if all chunks of the run are committed, or will be by this Pod."""

    def add(self, chunk: int, commit: ChunkCommit) -> None:
        """Count a chunk that was committed."""

    @property
    def counts(self) -> Counts:
        """The committed records of the run."""


class WholeWork:
    """All missing chunks, in order."""

    def __init__(self, missing: Iterable[Chunk], *, total: int) -> None:
        self._missing = deque(missing)
        self._total = total
        self._results = ResultCounts(0)
        self._usage = NO_USAGE

    async def take(self) -> Chunk | None:
        """Return the next chunk."""
        return self._missing.popleft() if self._missing else None

    async def wait_for_more(self) -> bool:
        """Nothing is added."""
        return False

    def add(self, chunk: int, commit: ChunkCommit) -> None:  # noqa: ARG002  the seam's
        """Count a chunk."""
        self._results += commit.counts
        self._usage += commit.usage

    @property
    def counts(self) -> Counts:
        """What was added."""
        return Counts(self._total, self._results.completed, self._results.failed, self._usage)


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
            model, self._window, limits=limits, budget=self._budget, recall=recall, on_note=self._take_note
        )
        self._note = ""
        """Why requests are sent alone, for people; empty if they are not."""

        self._work: Work = WholeWork((), total=0)
        self._batching = Batching(self._sender.wanted_records, max_bytes=limits.batch_bytes)
        self._chunks: deque[Chunk] = deque()  # those of the pending results
        self._pending: asyncio.Queue[tuple[Batch, asyncio.Task[Results]] | None] = (
            asyncio.Queue()
        )  # bounded by the window
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
        records, concurrency = self._sender.wanted_records(), self._sender.concurrency
        self._report(
            replace(
                work.counts, batch_records=records, concurrency=concurrency, note=self._note or self._sender.shortage
            )
        )

    def _take_note(self, note: str) -> None:
        self._note = note
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
        first, budget = chunk.first, self._budget
        blocks = self._source.read(chunk)
        while (block := await asyncio.to_thread(lambda: next(blocks, None))) is not None:
            if first + len(block.records) > chunk.stop:
                break
            invalid = invalid_of(block)
            self._invalid = self._invalid + len(invalid) if len(block.errors) == len(block.records) else 0
            if invalid and self._invalid >= _INVALID_IN_A_ROW and not budget.is_limited:
                text = f"{self._invalid} records in a row are not valid; {invalid[0].message}"
                raise InputError(text, is_retryable=False)
            for part in _cut(block, first=first, at=budget.canary):
                if first >= budget.canary and not budget.canary_passed.is_set():
                    await self._dispatch(self._batching.rest(), group)
                    await budget.canary_passed.wait()
                self._batching.add(part, first=first)
                first += len(part.records)
                await self._dispatch(self._batching.full(), group)
        if block is not None or first != chunk.stop:
            raise InputError(f"chunk {chunk.index} does not have {chunk.records} records any more; the input changed")

    async def _dispatch(self, requests: Iterator[Batch], group: asyncio.TaskGroup) -> None:
        await self._sender.wait_for_lookahead()
        for request in requests:
            await self._window.enter(request)
            self._sender.expect(request)
            self._pending.put_nowait((request, group.create_task(self._sender.send(request))))
            await self._sender.wait_for_lookahead()

    async def _write(self, work: Work) -> None:
        """Divide the results among the writers of their chunks, and commit each chunk with its last result.

        While chunks are being committed, results of the next ones are written.
        """
        at_a_time = self._sink.commits_at_a_time if isinstance(self._sink, PipelinedStore) else 1
        async with asyncio.TaskGroup() as commits:
            await self._divide(work, commits, asyncio.Semaphore(at_a_time))

    async def _divide(self, work: Work, commits: asyncio.TaskGroup, room: asyncio.Semaphore) -> None:
        chunk: Chunk | None = None
        writer: ChunkWriter | None = None
        while (sent := await self._pending.get()) is not None:
            batch, results = sent[0], await sent[1]
            self._budget.add(batch, results)
            start = 0
            while start < len(batch):
                if chunk is None or writer is None:
                    chunk = self._chunks.popleft()
                    writer = self._sink.writer(chunk)
                stop = min(len(batch), chunk.stop - batch.first)
                await writer.write(batch.part(start, stop), results.part(start, stop))
                start = stop
                if batch.first + stop == chunk.stop:
                    if isinstance(self._sink, PipelinedStore):
                        await room.acquire()
                        commits.create_task(self._commit(work, chunk, writer, room))
                    else:
                        await self._commit(work, chunk, writer)
                    chunk = writer = None
            self._window.leave(results)

    async def _commit(
        self, work: Work, chunk: Chunk, writer: ChunkWriter, room: asyncio.Semaphore | None = None
    ) -> None:
        work.add(chunk.index, await writer.commit())
        if room is not None:
            room.release()
        self._budget.check_committed(work.counts.failed)  # some results do not fit the columns of the output
        if self._sink.commits_chunks:
            self.report(work)


def _cut(block: Block, *, first: int, at: int) -> Iterator[Block]:
    """Divide a block, whose first record has the index `first`, before the record `at` if it contains that one."""
    before = at - first
    if not 0 < before < len(block.records):
        yield block
        return
    yield block.part(0, before)
    yield block.part(before, len(block.records))

"""The stages between the seams: read, send, write, commit. Each is bounded.

Results are written in input order, each chunk by its own writer. While a request waits for a retry,
later ones overtake it and are held in the reorder window until it has succeeded. A full window
blocks the reader, so memory depends on the limits and not on the input.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from inferrun.formats.record_errors import invalid_of
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
    Records,
    ResultCounts,
    Results,
    Source,
)
from inferrun.runner_report import total_usage
from inferrun_runner.flow.batching import Batching
from inferrun_runner.sending.answers import Answers
from inferrun_runner.sending.duplicates import Duplicates
from inferrun_runner.sending.error_budget import ErrorBudget
from inferrun_runner.sending.reorder_window import ReorderWindow
from inferrun_runner.sending.saved_answers import Saving
from inferrun_runner.sending.sender import Known, Sender

_REPORT_SECONDS = 2.0

_INVALID_IN_A_ROW = 1000
"""Records without a valid one in between that end the run: then the rest of the input is of another
form."""


KeysOf: TypeAlias = Callable[[Records], Sequence[bytes | None]]
"""Returns what records that are the same request have in common; None for a record that is none, or
nothing for all."""


class Work(Protocol):
    """The chunks that are left to predict."""

    async def take(self) -> Chunk | None:
        """Return the next chunk, which no other Pod is known to predict; None if all are taken at
        the moment."""

    async def wait_for_more(self) -> bool:
        """Wait until there may be another chunk; False if all chunks of the run are committed, or
        will be by this Pod."""

    def add(self, chunk: int, commit: ChunkCommit) -> None:
        """Count a chunk that was committed."""

    @property
    def counts(self) -> Counts:
        """The committed records of the run."""


class WholeWork:
    """All chunks that are not committed, in order."""

    def __init__(self, plan: InputPlan, committed: Mapping[int, ChunkCommit]) -> None:
        self._missing = deque(chunk for chunk in plan.chunks if chunk.index not in committed)
        self._total = plan.total
        self._results = sum((commit.counts for commit in committed.values()), start=ResultCounts(0))
        self._usage = total_usage(commit.usage for commit in committed.values())

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
        """What is committed."""
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
        known: Sequence[Known] = (),
        saving: Saving | None = None,
        keys_of: KeysOf | None = None,
        answers: Answers | None = None,
    ) -> None:
        """`known` has the predictions of some records, the first one for what the others have not.

        With both `keys_of` and `answers`, records with the same key are sent once.
        """
        self._source = source
        self._keys_of = keys_of
        self._sink = sink
        self._report = report
        self._budget = budget or ErrorBudget(total=0)
        self._window = ReorderWindow(
            limit=limits.window_bytes,
            in_flight=lambda: self._sender.slots.number,
            lookahead=lambda: self._sender.lookahead,
        )
        self._duplicates = (
            Duplicates(answers, note_sent=self._window.note_sent) if answers else None
        )
        self._sender = Sender(
            model,
            self._window,
            limits=limits,
            budget=self._budget,
            known=[self._duplicates, *known] if self._duplicates else known,
            on_note=self._take_note,
            on_results=saving.add if saving else None,
        )
        self._saving = saving
        self._note = ""
        """Why requests are sent alone, for people; empty if they are not."""

        self._work: Work
        self._batching = Batching(lambda: self._sender.wanted, max_bytes=limits.batch_bytes)
        self._chunks: deque[Chunk] = deque()  # those of the pending results
        self._pending: asyncio.Queue[tuple[Batch, asyncio.Task[Results]] | None] = (
            asyncio.Queue()
        )  # bounded by the window
        self._invalid = 0

    async def run(
        self, plan: InputPlan, checkpoint: Checkpoint, work: Work | None = None
    ) -> Counts:
        """Predict and commit the missing chunks, or those of `work`, and return the counts of the
        whole run.

        Raises TooManyErrors, alone or in a group, if more records fail than may.
        """
        self._budget.begin(plan, checkpoint.committed)
        self._work = work or WholeWork(plan, checkpoint.committed)
        self.report()
        beside = [asyncio.create_task(self._report_failures())]
        if self._saving:
            beside.append(asyncio.create_task(self._saving.run()))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(group))
                group.create_task(self._write())
        except BaseException:
            if self._saving:
                await self._saving.end()
            raise
        finally:
            for task in beside:
                task.cancel()
        return self._work.counts

    async def _report_failures(self) -> None:
        """Report from time to time while requests fail: then no chunk may be committed for long."""
        reported = 0
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            if (failed := self._sender.requests.failed) != reported:
                reported = failed
                self.report()

    def report(self) -> None:
        """Report the counts, and how requests are sent."""
        slots = self._sender.slots
        records = self._sender.sizer.rows
        requests = self._sender.requests
        counts = replace(
            self._work.counts,
            batch_records=records,
            concurrency=slots.number,
            requests=requests.ended,
            failed_requests=requests.failed,
            request_seconds=requests.seconds,
            sent_bytes=requests.sent_bytes,
            received_bytes=requests.received_bytes,
            duplicates=self._duplicates.found if self._duplicates else 0,
            note=self._note or slots.shortage,
        )
        self._report(counts)

    def _take_note(self, note: str) -> None:
        self._note = note
        self.report()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        is_more = True
        while is_more:
            while (chunk := await self._work.take()) is not None:
                if self._batching.has_gap(chunk.first):
                    await self._dispatch(self._batching.rest(), group)
                self._chunks.append(chunk)
                await self._read_chunk(chunk, group)
            await self._dispatch(self._batching.rest(), group)
            is_more = await self._work.wait_for_more()
        await self._pending.put(None)

    async def _read_chunk(self, chunk: Chunk, group: asyncio.TaskGroup) -> None:
        first, budget = chunk.first, self._budget
        blocks = self._source.read(chunk)
        while (block := await asyncio.to_thread(self._next, blocks)) is not None:
            if first + len(block.records) > chunk.stop:
                break
            invalid = invalid_of(block)
            self._invalid = (
                self._invalid + len(invalid) if len(block.errors) == len(block.records) else 0
            )
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
            raise InputError(
                f"chunk {chunk.index} does not have {chunk.records} records any more; the input changed"
            )

    def _next(self, blocks: Iterator[Block]) -> Block | None:
        block = next(blocks, None)
        if block is None or self._keys_of is None:
            return block
        return replace(block, keys=self._keys_of(block.records))

    async def _dispatch(self, requests: Iterator[Batch], group: asyncio.TaskGroup) -> None:
        await self._window.wait_for_lookahead()
        for request in requests:
            await self._window.enter(request)
            self._pending.put_nowait((request, group.create_task(self._sender.send(request))))
            await self._window.wait_for_lookahead()

    async def _write(self) -> None:
        """Divide the results among the writers of their chunks, and commit each chunk with its last
        result.

        While chunks are being committed, a store that commits several at a time gets the results of
        the next ones.
        """
        sink, writer = self._sink, None
        at_a_time = sink.abilities.commits_at_a_time
        room = asyncio.Semaphore(at_a_time)
        async with asyncio.TaskGroup() as commits:
            while (sent := await self._pending.get()) is not None:
                batch, results = sent[0], await sent[1]
                self._budget.add(batch, results)
                start = 0
                while start < len(batch):
                    chunk = self._chunks[0]
                    writer = writer or sink.writer(chunk)
                    stop = min(len(batch), chunk.stop - batch.first)
                    await writer.write(batch.part(start, stop), results.part(start, stop))
                    start = stop
                    if batch.first + stop < chunk.stop:
                        continue
                    if at_a_time > 1:
                        await room.acquire()
                        commit = commits.create_task(self._commit(chunk, writer))
                        commit.add_done_callback(lambda _: room.release())
                    else:
                        await self._commit(chunk, writer)
                    self._chunks.popleft()
                    writer = None
                self._window.leave(results)

    async def _commit(self, chunk: Chunk, writer: ChunkWriter) -> None:
        self._work.add(chunk.index, await writer.commit())
        if self._saving:
            self._saving.note_commit(chunk.index)
        # some results do not fit the columns of the output
        self._budget.check_committed(self._work.counts.failed)
        if self._sink.abilities.commits_chunks:
            self.report()


def _cut(block: Block, *, first: int, at: int) -> Iterator[Block]:
    """Divide a block, whose first record has the index `first`, before the record `at` if it
    contains that one."""
    before = at - first
    if not 0 < before < len(block.records):
        yield block
        return
    yield block.part(0, before)
    yield block.part(before, len(block.records))

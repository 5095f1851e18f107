"""Answers whose chunk is not committed yet: what a killed Pod would have to pay for again.

A chunk of prompts may take minutes. So its answers are also stored from time to time, and when a run
ends before its end; the next attempt takes them instead of asking again, with their tokens.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from inferrun.formats.record_errors import with_known
from inferrun.formats.record_texts import prediction_texts
from inferrun.formats.saved_answers import SavedAnswer, dump_answers, load_answers
from inferrun.plugins import (
    NO_USAGE,
    AnswerStore,
    Batch,
    Chunk,
    CustomId,
    OutputError,
    Results,
)
from inferrun.runner_report import total_usage
from inferrun_runner.sending.recall import Predict

_log = logging.getLogger(__name__)

_MOST_BYTES: Final = 1 << 20
"""Memory of the answers that are held until they are saved."""

_LAST_SECONDS: Final = 2.0
"""Time for the last answers of a run that ends early: its Pod is about to be killed."""


class UnsavedAnswers:
    """Holds the results of requests until their chunk is committed or they are taken to be saved."""

    def __init__(self, chunks: Sequence[Chunk], committed: Iterable[int]) -> None:
        self._first = [chunk.first for chunk in chunks]
        self._held = dict[int, list[tuple[int, Sequence[CustomId], Results]]]()
        """The first index, the ids and the results of batches, whose records are not kept for it, by
        the chunk of their last record."""

        self._bytes = dict[int, int]()
        self._has_tokens = False
        self._committed = set(committed)
        self._files = dict[str, set[int]]()
        """The chunks whose answers are in a file, as far as they are not committed."""

    def add(self, batch: Batch, results: Results) -> None:
        """Hold the results of a batch. If they are many, those without tokens are not: they come
        fast."""
        chunk = self._chunk_of(batch.first + len(batch) - 1)
        self._bytes[chunk] = self._bytes.get(chunk, 0) + results.values.nbytes
        self._held.setdefault(chunk, []).append((batch.first, batch.ids, results))
        self._has_tokens |= results.usage.total_tokens > 0
        if self.is_full and not self._has_tokens:
            self._held, self._bytes = {}, {}

    @property
    def is_full(self) -> bool:
        """Whether so much is held that it is to be saved."""
        return sum(self._bytes.values()) > _MOST_BYTES

    def note_commit(self, chunk: int) -> None:
        """Forget the answers of a chunk."""
        self._committed.add(chunk)
        self._held.pop(chunk, None)
        self._bytes.pop(chunk, None)
        for chunks in self._files.values():
            chunks.discard(chunk)

    def take(self) -> list[SavedAnswer]:
        """Return what is held of chunks that are not committed, and hold it no longer."""
        held, self._held, self._bytes, self._has_tokens = self._held, {}, {}, False
        return [
            one
            for batches in held.values()
            for first, ids, results in batches
            for one in _answers_of(first, ids, results)
            if self._chunk_of(one.index) not in self._committed
        ]

    def note_saved(self, file: str, answers: Iterable[SavedAnswer]) -> None:
        """Remember where answers were saved."""
        chunks = {self._chunk_of(one.index) for one in answers}
        self._files[file] = chunks - self._committed

    def needless(self) -> list[str]:
        """Return the files whose chunks are all committed, once."""
        found = [file for file, chunks in self._files.items() if not chunks]
        for file in found:
            del self._files[file]
        return found

    def _chunk_of(self, index: int) -> int:
        return bisect_right(self._first, index) - 1


def _answers_of(first: int, ids: Sequence[CustomId], results: Results) -> Iterator[SavedAnswer]:
    usage = results.usage
    for at, text in enumerate(prediction_texts(results.values)):
        if at not in results.errors:
            yield SavedAnswer(first + at, text, usage, ids[at] if ids else None)
            usage = NO_USAGE


class Saving:
    """Saves the answers of one run, every `seconds` and when there are many."""

    def __init__(
        self,
        store: AnswerStore,
        chunks: Sequence[Chunk],
        committed: Iterable[int],
        *,
        seconds: float,
    ) -> None:
        """`committed`: numbers of the chunks that are committed already."""
        self._store = store
        self._unsaved = UnsavedAnswers(chunks, committed)
        self._seconds = seconds
        self._is_due = asyncio.Event()
        self._turn = asyncio.Lock()

    def add(self, batch: Batch, results: Results) -> None:
        """Take the results of a batch into account."""
        self._unsaved.add(batch, results)
        if self._unsaved.is_full:
            self._is_due.set()

    def note_commit(self, chunk: int) -> None:
        """Take the commit of a chunk into account."""
        self._unsaved.note_commit(chunk)

    async def known(self) -> "KnownAnswers | None":
        """Return the answers of earlier attempts; None if there are none. Raises OutputError."""
        found = dict[int, SavedAnswer]()
        for file, content in (await self._store.read_answers()).items():
            answers = list(load_answers(content))
            self._unsaved.note_saved(file, answers)
            found |= {one.index: one for one in answers}
        if not found:
            return None
        _log.info("answers of an earlier attempt are used", extra={"answers": len(found)})
        return KnownAnswers(found)

    async def run(self) -> None:
        """Save until the task is cancelled. A failure is only logged: the run goes on, and its
        chunks are committed as usual."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_due.wait(), self._seconds)
            self._is_due.clear()
            try:
                await self._save()
            except OutputError as error:
                _log.warning("answers could not be saved", extra={"error": str(error)})

    async def end(self) -> None:
        """Save what is left when the run ends without its commit."""
        with suppress(OutputError, TimeoutError):
            await asyncio.wait_for(self._save(), _LAST_SECONDS)

    async def _save(self) -> None:
        async with self._turn:
            if needless := self._unsaved.needless():
                await self._store.delete_answers(needless)
            if answers := self._unsaved.take():
                file = await self._store.save_answers(dump_answers(answers))
                self._unsaved.note_saved(file, answers)


class KnownAnswers:
    """Takes the place of the model for records that an earlier attempt has an answer for."""

    def __init__(self, answers: Mapping[int, SavedAnswer]) -> None:
        self._answers = answers

    async def predict(self, batch: Batch, predict: Predict) -> Results:
        """Return the known predictions of a batch with those that `predict` returns for the others.
        Raises what it raises."""
        known = {
            at: one
            for at in range(len(batch))
            if at not in batch.errors and (one := self._answers.get(batch.first + at))
        }
        if not known:
            return await predict(batch)
        results = await with_known(
            batch, {at: one.prediction for at, one in known.items()}, predict
        )
        saved = total_usage(one.usage for one in known.values())
        return replace(results, usage=saved + results.usage)

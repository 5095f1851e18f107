"""Which chunks a Pod predicts, and the counts of its run. Of a run with one Pod: all that are missing."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from inferrun.plugins import NO_USAGE, Chunk, ChunkCommit, Counts, ResultCounts


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

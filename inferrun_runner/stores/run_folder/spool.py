"""Results that are not committed yet, in files on the Pod's disk. Size and hash are computed while
they are written."""

import asyncio
import hashlib
import io
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, TypeVar, cast

from pydantic import ValidationError

from inferrun.plugins import (
    NO_USAGE,
    Batch,
    Chunk,
    ChunkCommit,
    OutputError,
    ResultCounts,
    Results,
    ResultWriter,
    StoreContext,
    TokenUsage,
)
from inferrun.plugins.limits import MIB
from inferrun.runner_report import total_usage
from inferrun_runner.stores.disk import refusal

T = TypeVar("T")

OpenWriter: TypeAlias = Callable[[BinaryIO, BinaryIO], ResultWriter]
"""Returns a writer of results and errors to two files."""

_BUFFER: Final = 1 << 18

HELD_BYTES: Final = 256 * 1024
"""Memory of results that are held to be written together: handing a result to a thread costs more
than a small request."""


class Draft(io.RawIOBase):
    """A file that is created with the first byte written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        self._file: BinaryIO | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]  # what is written here
        """Append bytes. After `finish` they are discarded: a writer that is given up may end its
        file when it is destroyed."""
        if self._file is not None and self._file.closed:
            return len(data)
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("wb", buffering=_BUFFER)
        with memoryview(data) as view:
            self._file.write(view)
            self._digest.update(view)
            self.size += view.nbytes
            return view.nbytes

    @property
    def sha256(self) -> str:
        """The digest of what was written."""
        return self._digest.hexdigest()

    def finish(self) -> None:
        """Write what is buffered, and close the file."""
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, slots=True)
class PartDraft:
    """The finished files of a chunk, and what is in them."""

    chunk: Chunk
    results: Draft
    errors: Draft | None
    counts: ResultCounts
    usage: TokenUsage


class SpooledChunk:
    """Writes one chunk: results, and errors if there are any."""

    def __init__(
        self,
        spool: "Spool",
        chunk: Chunk,
        writer: OpenWriter,
        store: Callable[[PartDraft], ChunkCommit],
    ) -> None:
        """`store` commits the finished files. It blocks."""
        self._spool = spool
        self._chunk = chunk
        self._store = store
        path = spool.folder / f"{chunk.index:06}"
        self._results, self._errors = Draft(path), Draft(path.with_suffix(".errors"))
        self._writer = writer(cast("BinaryIO", self._results), cast("BinaryIO", self._errors))
        self._usage = NO_USAGE
        self._held: list[tuple[Batch, Results]] = []
        self._held_bytes = 0
        spool.chunks.add(self)

    async def write(self, batch: Batch, results: Results) -> None:
        """Append to the files of the chunk, as soon as enough is held."""
        self._held.append((batch, results))
        self._held_bytes += batch.records.nbytes + results.values.nbytes
        if self._held_bytes >= HELD_BYTES:
            await self._spool.on_thread(self._append_held)

    async def commit(self) -> ChunkCommit:
        """Commit the chunk."""
        return await self._spool.on_thread(self._commit, self._spool.commits)

    def _append_held(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        for batch, results in held:
            self._writer.write(batch, results)
        self._usage += total_usage(results.usage for _, results in held)

    def _commit(self) -> ChunkCommit:
        self._append_held()
        counts = self._writer.close()
        self._results.write(b"")  # an empty file is a file
        self.close()
        errors = self._errors if self._errors.size else None
        commit = self._store(PartDraft(self._chunk, self._results, errors, counts, self._usage))
        for draft in (self._results, self._errors):
            draft.path.unlink(missing_ok=True)
        self._spool.chunks.discard(self)
        return commit

    def close(self) -> None:
        """Close the files."""
        self._results.finish()
        self._errors.finish()


KEPT_BYTES: Final = 256 * MIB
"""About the most bytes of stored files that are kept to be joined. The others are read again from
the store."""


class Spool:
    """The folder of one attempt on the Pod's disk."""

    def __init__(self, context: StoreContext, *, foreign: str, commits_at_a_time: int = 1) -> None:
        """`foreign`: the message if a document was not written by this runner."""
        self.attempt = (context.pod_uid or f"pid-{os.getpid()}-{id(self):x}").replace("/", "-")
        self.folder = context.spool_dir / f"output-{self.attempt}"
        self.chunks: set[SpooledChunk] = set()
        self._kept: dict[str, Path] = {}
        self._room = KEPT_BYTES
        self.commits = ThreadPoolExecutor(commits_at_a_time, "commit")
        """Commits wait for the store most of the time, and must not keep what reads and writes
        waiting."""

        self._foreign = foreign

    async def on_thread(self, work: Callable[[], T], pool: ThreadPoolExecutor | None = None) -> T:
        """Do blocking work on a thread. Raises OutputError for a full disk and for an invalid
        document."""
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except OSError as error:
            raise OutputError(
                f"cannot spool the predictions to {self.folder.parent}: {refusal(error, self.folder.parent)}; the Pod needs enough "
                "ephemeral storage for chunks and for a file of results"
            ) from error
        except ValidationError as error:
            raise OutputError(self._foreign) from error

    def keep(self, name: str, draft: Draft) -> None:
        """Keep a file that has been stored under this name, if there is room."""
        if draft.size > self._room:
            return
        self._room -= draft.size
        self._kept[name] = draft.path.rename(f"{draft.path}.kept")

    def taken(self, name: str) -> Path | None:
        """Return the file that was kept under this name, which is the caller's to delete; None if
        there is none."""
        return self._kept.pop(name, None)

    def close(self) -> None:
        """Delete what is not committed. A thread that a cancelled call has left behind may still be
        working."""
        for chunk in list(self.chunks):
            with suppress(OSError):  # a full disk
                chunk.close()
        self.commits.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self.folder, ignore_errors=True)

"""The writer of one chunk, for any store that commits a chunk as files."""

from collections.abc import Sequence
from typing import Final, Protocol

from inferrun.plugins import Batch, Chunk, ChunkCommit, Results
from runner.run_folder.part_writer import PartWriter

HELD_BYTES: Final = 256 * 1024
"""Memory of results that are held to be written together: handing a result to a thread costs more than a small request."""


class ChunkStore(Protocol):
    """A store that publishes the files of chunks."""

    async def append(self, part: PartWriter, written: Sequence[tuple[Batch, Results]]) -> None:
        """Append the results of consecutive batches to the files of a chunk."""
        ...

    async def commit(self, chunk: Chunk, part: PartWriter) -> ChunkCommit:
        """Commit the files of a chunk."""
        ...


class PartChunkWriter:
    """Writes one chunk."""

    def __init__(self, store: ChunkStore, chunk: Chunk, part: PartWriter) -> None:
        self._store = store
        self._chunk = chunk
        self._part = part
        self._held: list[tuple[Batch, Results]] = []
        self._held_bytes = 0

    async def write(self, batch: Batch, results: Results) -> None:
        """Append to the files of the chunk, as soon as enough is held."""
        self._held.append((batch, results))
        self._held_bytes += batch.records.nbytes + results.values.nbytes
        if self._held_bytes >= HELD_BYTES:
            await self._append_held()

    async def commit(self) -> ChunkCommit:
        """Commit the chunk."""
        await self._append_held()
        return await self._store.commit(self._chunk, self._part)

    async def _append_held(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if held:
            await self._store.append(self._part, held)

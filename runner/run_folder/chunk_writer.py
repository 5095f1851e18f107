"""The writer of one chunk, for any store that commits a chunk as files."""

from typing import Protocol

from inferrun.plugins import Batch, Chunk, ChunkCommit, Results
from runner.run_folder.part_writer import PartWriter


class ChunkStore(Protocol):
    """A store that publishes the files of chunks."""

    async def append(self, part: PartWriter, batch: Batch, results: Results) -> None:
        """Append to the files of a chunk."""
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

    async def write(self, batch: Batch, results: Results) -> None:
        """Append to the files of the chunk."""
        await self._store.append(self._part, batch, results)

    async def commit(self) -> ChunkCommit:
        """Commit the chunk."""
        return await self._store.commit(self._chunk, self._part)

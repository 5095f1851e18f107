"""Limits the batches that are held between reading and writing, by their memory.

The window is separate from the number of concurrent requests: while one batch waits for a retry, the batches after it are sent,
received and held here until they can be written in order.
"""

import asyncio

from inferrun.plugins import Batch

_BYTES_PER_NUMBER = 32
_BYTES_PER_ROW = 64


class ReorderWindow:
    """Admits batches until their estimated memory exceeds `limit` bytes, and always at least `minimum` batches."""

    def __init__(self, *, limit: int, minimum: int) -> None:
        self._limit = limit
        self._minimum = minimum
        self._held_bytes = 0
        self._held_batches = 0
        self._has_changed = asyncio.Event()

    async def enter(self, batch: Batch) -> None:
        """Wait until there is room for a batch."""
        size = memory_of(batch)
        while self._held_batches >= self._minimum and self._held_bytes + size > self._limit:
            self._has_changed.clear()
            await self._has_changed.wait()
        self._held_batches += 1
        self._held_bytes += size

    def leave(self, batch: Batch) -> None:
        """Release the room of a batch that was written."""
        self._held_batches -= 1
        self._held_bytes -= memory_of(batch)
        self._has_changed.set()


def memory_of(batch: Batch) -> int:
    """Estimate the memory of a decoded batch in bytes: a float and its reference take 32 bytes, an empty list 56."""
    return len(batch.rows) * (_BYTES_PER_ROW + _BYTES_PER_NUMBER * len(batch.rows[0]))

"""Cuts requests from blocks, across the borders of blocks and chunks. Pure."""

from collections import deque
from collections.abc import Callable, Iterator

from inferrun.plugins import Batch, Block


class Batching:
    """Holds the records that are read and not yet part of a request.

    `wanted` returns how many records the next request has; it is asked again for each, because it follows the model's speed. A
    request has fewer records if they exceed `max_bytes`.
    """

    def __init__(self, wanted: Callable[[], int], *, max_bytes: int) -> None:
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._held: deque[Batch] = deque()
        self._records = 0
        self._size = 0
        self._next = 0

    def add(self, block: Block, *, first: int) -> None:
        """Hold a block whose first record has the index `first`."""
        batch = Batch(first=first, records=block.records, ids=block.ids, copied=block.copied)
        self._held.append(batch)
        self._records += len(batch)
        self._size += batch.nbytes
        self._next = first + len(batch)

    def has_gap(self, first: int) -> bool:
        """Return whether a record with the index `first` does not follow the held ones, so that these must be flushed before."""
        return bool(self._held) and first != self._next

    def full(self) -> Iterator[Batch]:
        """Yield the requests that are full."""
        while self._held and (self._records >= self._wanted() or self._size >= self._max_bytes):
            yield self._cut()

    def rest(self) -> Iterator[Batch]:
        """Yield requests with all that is left."""
        while self._held:
            yield self._cut()

    def _cut(self) -> Batch:
        """Take one request from the front."""
        parts = [self._take(self._wanted(), self._max_bytes)]
        count, size = len(parts[0]), parts[0].nbytes
        while self._held and (left := self._wanted() - count) > 0 and size + self._next_size() <= self._max_bytes:
            part = self._take(left, self._max_bytes - size)
            parts.append(part)
            count += len(part)
            size += part.nbytes
        return _joined(parts)

    def _next_size(self) -> int:
        """Return the usual size of a record in the first block."""
        return self._held[0].nbytes // len(self._held[0])

    def _take(self, count: int, max_bytes: int) -> Batch:
        """Take up to `count` records of the first block, and about `max_bytes`."""
        block = self._held.popleft()
        size = block.nbytes
        fitting = max(1, len(block) * max_bytes // max(size, 1))
        stop = min(count, fitting, len(block))
        taken = block.part(0, stop)
        self._size -= size
        if stop < len(block):
            rest = block.part(stop, len(block))
            self._held.appendleft(rest)
            self._size += rest.nbytes
        self._records -= stop
        return taken


def _joined(parts: list[Batch]) -> Batch:
    first = parts[0]
    if len(parts) == 1:
        return first
    has_ids = any(part.ids for part in parts)
    ids = [one for part in parts for one in (part.ids or [None] * len(part))] if has_ids else ()
    copied = [one for part in parts for one in part.copied]
    return Batch(
        first=first.first, records=first.records.join([part.records for part in parts[1:]]), ids=ids, copied=copied
    )

"""Cuts requests from blocks, across the borders of blocks and chunks. Pure."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from inferrun.plugins import Batch, Block, JsonRecords, Records

T = TypeVar("T")


@dataclass(slots=True)
class _Held:
    """A block, of which the first records may have been taken. What is left is not copied for each
    request."""

    block: Batch
    size: int
    """The memory of what is left."""

    start: int = 0
    """The position of the first record that is left."""

    def __len__(self) -> int:
        return len(self.block) - self.start


class Batching:
    """Holds the records that are read and not yet part of a request.

    `wanted` returns how many records the next request has; it is asked again for each, because it
    follows the model's speed. A request has fewer records if they exceed `max_bytes`.
    """

    def __init__(self, wanted: Callable[[], int], *, max_bytes: int) -> None:
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._held: deque[_Held] = deque()
        self._records = 0
        self._size = 0
        self._next = 0

    def add(self, block: Block, *, first: int) -> None:
        """Hold a block whose first record has the index `first`."""
        batch = Batch(
            first=first,
            records=block.records,
            ids=block.ids,
            copied=block.copied,
            errors=block.errors,
            keys=block.keys,
        )
        held = _Held(batch, batch.nbytes)
        self._held.append(held)
        self._records += len(held)
        self._size += held.size
        self._next = first + len(batch)

    def has_gap(self, first: int) -> bool:
        """Return whether a record with the index `first` does not follow the held ones, so that
        these must be flushed before."""
        return bool(self._held) and first != self._next

    def full(self) -> Iterator[Batch]:
        """Yield the requests that are full."""
        while self._held:
            wanted = self._wanted()
            if self._records < wanted and self._size < self._max_bytes:
                return
            yield self._cut(wanted)

    def rest(self) -> Iterator[Batch]:
        """Yield requests with all that is left."""
        while self._held:
            yield self._cut(self._wanted())

    def _cut(self, wanted: int) -> Batch:
        parts = [self._take(wanted, self._max_bytes)]
        count, size = len(parts[0]), parts[0].nbytes
        while self._held and (left := wanted - count) > 0:
            # that of one more record, as usual
            if size + self._held[0].size // len(self._held[0]) > self._max_bytes:
                break
            part = self._take(left, self._max_bytes - size)
            parts.append(part)
            count += len(part)
            size += part.nbytes
        return _joined(parts)

    def _take(self, count: int, max_bytes: int) -> Batch:
        held = self._held[0]
        before, left = held.size, len(held)
        number = min(count, max(1, left * max_bytes // max(before, 1)), left)
        taken = held.block.part(held.start, held.start + number)
        held.start, held.size = held.start + number, max(0, before - taken.nbytes)
        if number == left:
            self._held.popleft()
            held.size = 0
        self._records -= number
        self._size += held.size - before
        return taken


def _joined(parts: list[Batch]) -> Batch:
    first = parts[0]
    if len(parts) == 1:
        return first
    errors = {
        part.first - first.first + at: error for part in parts for at, error in part.errors.items()
    }
    return Batch(
        first=first.first,
        records=first.records.join([part.records for part in parts[1:]]),
        ids=_per_record([part.ids for part in parts], parts),
        copied=_copied_of(parts),
        errors=errors,
        keys=_per_record([part.keys for part in parts], parts),
    )


def _per_record(found: Sequence[Sequence[T | None]], parts: Sequence[Batch]) -> Sequence[T | None]:
    """Join what there is per record; some parts may have nothing."""
    if not any(found):
        return ()
    return [
        one
        for values, part in zip(found, parts, strict=True)
        for one in values or [None] * len(part)
    ]


def _copied_of(parts: Sequence[Batch]) -> Records | None:
    """Join what is copied of the parts, of which some may have nothing."""
    first = next((part.copied for part in parts if part.copied is not None), None)
    if first is None:
        return None
    found = [
        JsonRecords([b""] * len(part)) if part.copied is None else part.copied for part in parts
    ]
    return found[0].join(found[1:])

"""Decides which chunk a Pod claims next, and when it takes over what another one has claimed. Pure: the time is passed in.

Each Pod begins with a range of its own, in input order. Then it helps the others, from the ends of their ranges. Once every chunk
is claimed, it takes over the chunks of Pods that have ended or give no sign of life, and those that take much longer than its own.
Time is only ever measured by this Pod's clock: for how long it has seen no change. A wrong decision costs requests, never records:
the first commit of a chunk wins.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from inferrun.plugins import Claim, Member, Survey

SLOW_FACTOR: Final = 4
"""A claim is taken over, although its Pod is alive, after this many times the time that a chunk of this Pod has taken."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A claim or a sign of life, and since when it has not changed."""

    since: float
    claim: Claim | None = None
    member: Member | None = None


class Allocation:
    """What one Pod knows of the chunks of its run."""

    def __init__(self, chunks: int, *, own: Member, shards: int, patience: float) -> None:
        """`patience` is the number of seconds without a sign of life after which a Pod counts as lost."""
        self.own = own
        self._chunks = chunks
        self._patience = patience
        self._unclaimed = deque(order_of(chunks, shard=own.shard, shards=shards))
        self._committed: set[int] = set()
        self._mine: set[int] = set()
        self._claims: dict[int, _Seen] = {}
        self._members: dict[str, _Seen] = {}
        self._slowest = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether all chunks are committed."""
        return len(self._committed) == self._chunks

    @property
    def others(self) -> tuple[Member, ...]:
        """What is known of the other Pods, including those of earlier launches."""
        return tuple(seen.member for seen in self._members.values() if seen.member is not None)

    def learn(self, survey: Survey, *, now: float) -> None:
        """Take note of what all Pods have done."""
        self._committed |= {chunk for chunk in survey.committed if chunk < self._chunks}
        for chunk, claim in survey.claims.items():
            known = self._claims.get(chunk)
            if known is None or known.claim is None or known.claim.generation < claim.generation:
                self._claims[chunk] = _Seen(now, claim=claim)
            elif known.claim.generation == claim.generation and known.claim.owner != claim.owner:
                self._claims[chunk] = replace(known, claim=claim)
        for name, member in survey.members.items():
            known = self._members.get(name)
            if name != self.own.name and (known is None or known.member != member):
                self._members[name] = _Seen(now, member=member)

    def next_chunk(self, *, now: float) -> Claim | None:
        """Return the claim to make next; None if there is nothing to do at the moment."""
        while self._unclaimed:
            chunk = self._unclaimed[0]
            if chunk not in self._committed and chunk not in self._claims:
                return Claim(chunk, 0, self.own.name)
            self._unclaimed.popleft()
        free = (chunk for chunk in self._claims if chunk < self._chunks and chunk not in self._committed)
        return self._next_of(free, now=now)

    def next_commit(self, *, now: float) -> Claim | None:
        """Return the claim of the run's commit if it is this Pod's turn to make it."""
        if self._chunks not in self._claims:
            return Claim(self._chunks, 0, self.own.name)
        return self._next_of((self._chunks,), now=now)

    def has_claimed(self, claim: Claim, *, now: float) -> None:
        """The claim was recorded."""
        self._mine.add(claim.chunk)
        self._claims[claim.chunk] = _Seen(now, claim=claim)

    def has_lost(self, claim: Claim, *, now: float) -> None:
        """Another Pod has made this claim; which one is learned from the next survey."""
        self._claims[claim.chunk] = _Seen(now, claim=replace(claim, owner=""))

    def has_committed(self, chunk: int, *, now: float) -> None:
        """This Pod has committed a chunk, or found it committed."""
        self._committed.add(chunk)
        self._mine.discard(chunk)
        if (seen := self._claims.get(chunk)) is not None:
            self._slowest = max(self._slowest, now - seen.since)

    def _next_of(self, chunks: Iterable[int], *, now: float) -> Claim | None:
        for chunk in sorted(chunks):
            seen = self._claims[chunk]
            if chunk not in self._mine and seen.claim is not None and self._is_free(seen.claim, seen.since, now=now):
                return Claim(chunk, seen.claim.generation + 1, self.own.name)
        return None

    def _is_free(self, claim: Claim, since: float, *, now: float) -> bool:
        """Whether a claim of another Pod need not be respected."""
        seen = self._members.get(claim.owner)
        if seen is None or seen.member is None:
            return now - since >= self._patience
        owner = seen.member
        if owner.has_ended or owner.launch < self.own.launch:
            return True
        if owner.shard == self.own.shard and owner.launch == self.own.launch:
            return True  # this Pod replaces it
        if now - seen.since >= self._patience:
            return True  # it gives no sign of life
        if claim.chunk == self._chunks or not self._slowest:
            return False  # who commits the run reads all commits; nothing is gained if another Pod does the same
        return now - since >= max(self._patience, SLOW_FACTOR * self._slowest)


def order_of(chunks: int, *, shard: int, shards: int) -> list[int]:
    """The order in which a Pod looks for unclaimed chunks: its own range, then the ranges of the others from their ends."""
    ranges = [range(chunks * number // shards, chunks * (number + 1) // shards) for number in range(shards)]
    others = [ranges[(shard + step) % shards] for step in range(1, shards)]
    return [*ranges[shard % shards], *(chunk for one in others for chunk in reversed(one))]

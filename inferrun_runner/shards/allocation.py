"""Decides which chunk a Pod claims next, and when it takes over what another one has claimed. Pure:
the time is passed in.

Each Pod begins with a range of its own, in input order. Then it helps the others, from the ends of
their ranges. Once every chunk is claimed, it takes over the chunks of Pods that have ended or give
no sign of life, and those that take much longer than its own. Time is only ever measured by this
Pod's clock: for how long it has seen no change. A wrong decision costs requests, never records: the
first commit of a chunk wins.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from inferrun.plugins import Claim, Member, Survey

SLOW_FACTOR: Final = 4
"""A claim is taken over, although its Pod is alive, after this many times the time that a chunk of
this Pod has taken."""


class Allocation:
    """What one Pod knows of the chunks of its run."""

    def __init__(self, chunks: int, *, own: Member, shards: int, patience: float) -> None:
        """`patience` is the number of seconds without a sign of life after which a Pod counts as
        lost."""
        self.own = own
        self._chunks = chunks
        self._patience = patience
        self._unclaimed = deque(order_of(chunks, shard=own.shard, shards=shards))
        self._committed: set[int] = set()
        self._mine: set[int] = set()
        self._claims: dict[int, tuple[Claim, float]] = {}
        """The latest claim of each chunk, and since when it has not changed."""

        self._members: dict[str, tuple[Member, float]] = {}
        """The latest sign of life of each other Pod, by its name, and since when it has not
        changed."""

        self._slowest = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether all chunks are committed."""
        return len(self._committed) == self._chunks

    @property
    def others(self) -> tuple[Member, ...]:
        """What is known of the other Pods, including those of earlier launches."""
        return tuple(member for member, _ in self._members.values())

    def learn(self, survey: Survey, *, now: float) -> None:
        """Take note of what all Pods have done."""
        self._committed |= {chunk for chunk in survey.committed if chunk < self._chunks}
        for chunk, claim in survey.claims.items():
            known, since = self._claims.get(chunk, (None, now))
            if known is None or known.generation < claim.generation:
                self._claims[chunk] = (claim, now)
            elif known.generation == claim.generation:
                self._claims[chunk] = (claim, since)  # whose it is may not have been known
        for name, member in survey.members.items():
            if name != self.own.name and (
                name not in self._members or self._members[name][0] != member
            ):
                self._members[name] = (member, now)

    def next_chunk(self, *, now: float) -> Claim | None:
        """Return the claim to make next; None if there is nothing to do at the moment."""
        while self._unclaimed:
            chunk = self._unclaimed[0]
            if chunk not in self._committed and chunk not in self._claims:
                return Claim(chunk, 0, self.own.name)
            self._unclaimed.popleft()
        free = (
            chunk for chunk in self._claims if chunk < self._chunks and chunk not in self._committed
        )
        return self._next_of(free, now=now)

    def next_commit(self, *, now: float) -> Claim | None:
        """Return the claim of the run's commit if it is this Pod's turn to make it."""
        if self._chunks not in self._claims:
            return Claim(self._chunks, 0, self.own.name)
        return self._next_of((self._chunks,), now=now)

    def has_claimed(self, claim: Claim, *, now: float) -> None:
        """The claim was recorded."""
        self._mine.add(claim.chunk)
        self._claims[claim.chunk] = (claim, now)

    def has_lost(self, claim: Claim, *, now: float) -> None:
        """Another Pod has made this claim; which one is learned from the next survey."""
        self._claims[claim.chunk] = (replace(claim, owner=""), now)

    def has_committed(self, chunk: int, *, now: float) -> None:
        """This Pod has committed a chunk, or found it committed."""
        self._committed.add(chunk)
        self._mine.discard(chunk)
        if chunk in self._claims:
            self._slowest = max(self._slowest, now - self._claims[chunk][1])

    def _next_of(self, chunks: Iterable[int], *, now: float) -> Claim | None:
        for chunk in sorted(chunks):
            claim, since = self._claims[chunk]
            if chunk not in self._mine and self._is_free(claim, since, now=now):
                return Claim(chunk, claim.generation + 1, self.own.name)
        return None

    def _is_free(self, claim: Claim, since: float, *, now: float) -> bool:
        """Whether a claim of another Pod need not be respected."""
        if claim.owner not in self._members:
            return now - since >= self._patience
        owner, seen = self._members[claim.owner]
        if owner.has_ended or owner.launch < self.own.launch or now - seen >= self._patience:
            return True
        if owner.shard == self.own.shard and owner.launch == self.own.launch:
            return True  # this Pod replaces it
        if claim.chunk == self._chunks or not self._slowest:
            # who commits the run reads all commits; nothing is gained if another Pod does the same
            return False
        return now - since >= max(self._patience, SLOW_FACTOR * self._slowest)


def order_of(chunks: int, *, shard: int, shards: int) -> list[int]:
    """The order in which a Pod looks for unclaimed chunks: its own range, then the ranges of the
    others from their ends."""
    ranges = [
        range(chunks * number // shards, chunks * (number + 1) // shards)
        for number in range(shards)
    ]
    others = [ranges[(shard + step) % shards] for step in range(1, shards)]
    return [*ranges[shard % shards], *(chunk for one in others for chunk in reversed(one))]

"""An output store in memory that several Pods share, each through a handle that a test can make
die."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    ChunkCommit,
    Claim,
    CommittedRun,
    Counts,
    Delivery,
    InputPlan,
    Member,
    Output,
    OutputError,
    ResultCounts,
    Results,
    StoreAbilities,
    Survey,
    TokenUsage,
)
from tests.unit.runner.batches import decoded


@dataclass
class Shared:
    """What is stored of one run."""

    chance: random.Random
    parts: dict[int, list[object]] = field(default_factory=dict)
    commits: dict[int, ChunkCommit] = field(default_factory=dict)
    claims: dict[tuple[int, int], Claim] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    manifests: list[Counts] = field(default_factory=list)
    tries: Counter[int] = field(default_factory=Counter)
    """How often a commit of each chunk was tried."""

    @property
    def records(self) -> list[object]:
        """All committed results in order."""
        return [one for chunk in sorted(self.parts) for one in self.parts[chunk]]


class Handle:
    """The store as one Pod sees it. After `lives` calls every call fails, and nothing is stored any
    more."""

    delivery: Delivery = "ExactlyOnce"

    def __init__(self, shared: Shared, *, lives: int | None = None) -> None:
        self._shared = shared
        self._lives = lives

    @property
    def abilities(self) -> StoreAbilities:
        """Several Pods can divide the chunks."""
        return StoreAbilities(shared=self)

    @property
    def is_dead(self) -> bool:
        """Whether no more calls succeed."""
        return self._lives is not None and self._lives <= 0

    async def pause(self) -> None:
        """Let the other Pods continue, and die if it is time."""
        await asyncio.sleep(self._shared.chance.choice([0, 0, 0.001]))
        if self._lives is not None:
            self._lives -= 1
        if self.is_dead:
            raise OutputError("this Pod was killed", is_retryable=False)

    async def open(self) -> Checkpoint:
        return Checkpoint(committed=dict(self._shared.commits))

    async def begin(self, plan: InputPlan) -> InputPlan:
        return plan

    def writer(self, chunk: Chunk) -> "Writer":
        return Writer(self, self._shared, chunk)

    async def finish(self, counts: Counts) -> CommittedRun:
        """Commit the run, unless it is committed."""
        await self.pause()
        if not self._shared.manifests:
            self._shared.manifests.append(counts)
        await self.pause()
        return CommittedRun(counts.total, counts.completed, counts.failed, Output())

    async def claim(self, claim: Claim) -> bool:
        await self.pause()
        won = self._shared.claims.setdefault((claim.chunk, claim.generation), claim) is claim
        await self.pause()
        return won

    async def report(self, member: Member) -> None:
        await self.pause()
        self._shared.members[member.name] = member

    async def survey(self) -> Survey:
        await self.pause()
        shared = self._shared
        claims: dict[int, Claim] = {}
        for (chunk, _), claim in sorted(shared.claims.items()):
            if chunk not in shared.commits:
                claims[chunk] = claim
        return Survey(
            frozenset(shared.commits), claims, dict(shared.members), bool(shared.manifests)
        )

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        await self.pause()
        return dict(self._shared.commits)


class Writer:
    """Writes one chunk."""

    def __init__(self, handle: Handle, shared: Shared, chunk: Chunk) -> None:
        self._handle = handle
        self._shared = shared
        self._chunk = chunk
        self._values: list[object] = []
        self._counts = ResultCounts(0)

    async def write(self, batch: Batch, results: Results) -> None:
        assert batch.first == self._chunk.first + len(self._values)
        self._values += decoded(results)
        self._counts += results.counts

    async def commit(self) -> ChunkCommit:
        """Commit the chunk, unless it is committed."""
        assert len(self._values) == self._chunk.records
        shared, index = self._shared, self._chunk.index
        shared.tries[index] += 1
        await self._handle.pause()
        won = index not in shared.commits
        if won:
            shared.parts[index] = self._values
            shared.commits[index] = ChunkCommit(
                self._counts, usage=TokenUsage(total_tokens=len(self._values))
            )
        await self._handle.pause()
        return ChunkCommit(shared.commits[index].counts, usage=shared.commits[index].usage, won=won)

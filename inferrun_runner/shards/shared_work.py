"""The work of one Pod of several: claims chunks, gives signs of life, and learns from the store
what the others do."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from inferrun.plugins import (
    Chunk,
    ChunkCommit,
    Contract,
    ContractError,
    Counts,
    InputPlan,
    Member,
    OutputError,
    OutputStore,
    ResultCounts,
    RunnerError,
    SharedStore,
)
from inferrun.runner_report import total_usage
from inferrun_runner.errors import RunCommittedElsewhere, TooManyErrors, first_error
from inferrun_runner.sending.error_budget import ErrorBudget
from inferrun_runner.settings import Settings
from inferrun_runner.shards.allocation import Allocation

_log = logging.getLogger(__name__)

_BEATS_PER_PATIENCE: Final = 6
"""Signs of life in the time without one after which a Pod counts as lost."""

_IDLE_SECONDS: Final = 2.0
"""Maximum seconds between two surveys of a Pod that has nothing to do."""

_SURVEY_SHARE: Final = 0.2
"""Share of the time that surveys may take: those of an input with many chunks take seconds."""

_LAST_REPORT_SECONDS: Final = 1.0
"""Maximum seconds that a Pod takes to report that it ends."""


class SharedWork:
    """The chunks that this Pod claims."""

    def __init__(
        self,
        store: SharedStore,
        plan: InputPlan,
        *,
        own: Member,
        shards: int,
        patience: float,
        check_failed: Callable[[int], None] = lambda _: None,
        report: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_failed` raises TooManyErrors if that number of records may not fail; `report` is
        called when the counts change."""
        self._store = store
        self._plan = plan
        self._allocation = Allocation(len(plan.chunks), own=own, shards=shards, patience=patience)
        self._own = own
        self._pause = patience / _BEATS_PER_PATIENCE
        self._check_failed = check_failed
        self.report = report
        self._counted: set[int] = set()
        self._done = 0
        self._in_progress = 0
        self._is_waiting = False
        self._is_committing = False
        self._is_over = False
        self._has_changed = asyncio.Event()
        self._wants_survey = asyncio.Event()

    async def take(self) -> Chunk | None:
        """Claim a chunk."""
        while (claim := self._allocation.next_chunk(now=_now())) is not None:
            if await self._store.claim(claim):
                self._allocation.has_claimed(claim, now=_now())
                self._in_progress += 1
                return self._plan.chunks[claim.chunk]
            self._allocation.has_lost(claim, now=_now())
        return None

    async def wait_for_more(self) -> bool:
        """Wait until there is a chunk to claim. Returns False once all chunks are committed."""
        self._is_waiting = True
        self._survey_if_idle()
        while not self._allocation.is_complete:
            if self._allocation.next_chunk(now=_now()) is not None:
                self._is_waiting = False
                return True
            await self._change()
        return False

    def add(self, chunk: int, commit: ChunkCommit) -> None:
        """Count a chunk as this Pod's if it was the first to commit it."""
        self._allocation.has_committed(chunk, now=_now())
        self._count({chunk})
        self._in_progress -= 1
        if commit.won:
            failed, usage = self._own.failed + commit.counts.failed, self._own.usage + commit.usage
            self._own = replace(self._own, failed=failed, usage=usage)
        self._has_changed.set()
        self._survey_if_idle()

    @property
    def counts(self) -> Counts:
        """The committed records of the whole run, as far as this Pod knows."""
        members = (self._own, *self._allocation.others)
        failed = min(self._done, sum(member.failed for member in members))
        usage = total_usage(member.usage for member in members)
        return Counts(self._plan.total, self._done - failed, failed, usage)

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Wait until it is this Pod's turn to commit the run, and return all its chunks.

        Raises RunCommittedElsewhere if another Pod has committed it.
        """
        while True:
            claim = self._allocation.next_commit(now=_now())
            if claim is None:
                await self._change()
            elif await self._store.claim(claim):
                self._allocation.has_claimed(claim, now=_now())
                break
            else:
                self._allocation.has_lost(claim, now=_now())
        self._is_committing = True
        return await self._store.read_commits()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Give signs of life, and end what is executed here if the run has been decided
        elsewhere."""
        await self._learn()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat())
                yield
                self._is_over = True
                self._wants_survey.set()
        except BaseException as error:
            await self._report_end(error)
            raise
        await self._report_end(None)

    async def _learn(self) -> None:
        """Give a sign of life, and take note of what the others have done. Raises TooManyErrors and
        RunCommittedElsewhere."""
        self._own = replace(self._own, beat=self._own.beat + 1)
        await self._store.report(self._own)
        survey = await self._store.survey()
        if survey.is_run_committed:
            if self._is_committing:
                return  # it may be this Pod that has committed it
            raise RunCommittedElsewhere
        before = self.counts
        self._allocation.learn(survey, now=_now())
        self._count(survey.committed)
        others = self._allocation.others
        for member in others:
            if member.verdict and member.launch == self._own.launch:
                raise TooManyErrors(member.verdict)
        self._check_failed(sum(member.failed for member in (self._own, *others)))
        if self.counts != before:
            self.report()

    def _count(self, chunks: AbstractSet[int]) -> None:
        new = chunks - self._counted
        self._counted |= new
        self._done += sum(self._plan.chunks[chunk].records for chunk in new)

    async def _beat(self) -> None:
        while not self._is_over:
            began = _now()
            self._wants_survey.clear()
            try:
                await self._learn()
            except OutputError as error:
                if not error.is_retryable:
                    raise
                _log.warning(
                    "what the other Pods have done cannot be read", extra={"error": str(error)}
                )
            self._has_changed.set()
            wanted = min(self._pause, _IDLE_SECONDS) if self._is_idle else self._pause
            pause = max(wanted, (_now() - began) / _SURVEY_SHARE)
            # not wait_for, which may lose a cancellation in Python 3.11
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wants_survey.wait()

    async def _change(self) -> None:
        self._has_changed.clear()
        await self._has_changed.wait()

    def _survey_if_idle(self) -> None:
        """Look at once what is left, instead of waiting for the next sign of life: this Pod may be
        the last one."""
        if self._is_idle:
            self._wants_survey.set()

    @property
    def _is_idle(self) -> bool:
        return self._is_waiting and self._in_progress == 0

    async def _report_end(self, error: BaseException | None) -> None:
        cause = first_error(error) if error is not None else None
        if isinstance(cause, RunCommittedElsewhere):
            return
        verdict = str(cause) if isinstance(cause, TooManyErrors) else ""
        own = replace(self._own, beat=self._own.beat + 1, has_ended=True, verdict=verdict)
        with suppress(RunnerError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_LAST_REPORT_SECONDS):
                await self._store.report(own)


def shared_work(
    sink: OutputStore,
    plan: InputPlan,
    *,
    contract: Contract,
    settings: Settings,
    budget: ErrorBudget,
) -> SharedWork:
    """The work of this Pod. Raises ContractError if the run cannot be divided among Pods."""
    label = next(iter(contract.output), "")
    store = sink.abilities.shared
    if store is None:
        raise ContractError(
            f"shards: an output of the label {label!r} cannot be written by several Pods; remove shards"
        )
    if contract.canary_records:
        raise ContractError(
            f"shards: {settings.shards} Pods cannot wait for canaryRecords: {contract.canary_records}; remove one of them"
        )
    own = Member(
        name=settings.pod_uid or f"pid-{os.getpid()}",
        shard=settings.shard % settings.shards,
        launch=settings.launch,
    )
    return SharedWork(
        store,
        plan,
        own=own,
        shards=settings.shards,
        patience=settings.claim_seconds,
        check_failed=budget.check_committed,
    )


def counts_of(commits: Mapping[int, ChunkCommit], plan: InputPlan) -> Counts:
    """The counts of a run, whichever Pods committed its chunks."""
    results = sum((commit.counts for commit in commits.values()), start=ResultCounts(0))
    usage = total_usage(commit.usage for commit in commits.values())
    return Counts(plan.total, results.completed, results.failed, usage)


def _now() -> float:
    return asyncio.get_running_loop().time()

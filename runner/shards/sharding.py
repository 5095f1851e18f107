"""Prepares the work of one Pod of several, and adds up what all of them have committed."""

import os
from collections.abc import Mapping

from inferrun.plugins import (
    NO_USAGE,
    ChunkCommit,
    Contract,
    ContractError,
    Counts,
    InputPlan,
    Member,
    OutputStore,
    ResultCounts,
    SharedStore,
)
from runner.sending.error_budget import ErrorBudget
from runner.settings import Settings
from runner.shards.shared_work import SharedWork


def shared_work(
    sink: OutputStore, plan: InputPlan, *, contract: Contract, settings: Settings, budget: ErrorBudget
) -> SharedWork:
    """The work of this Pod. Raises ContractError if the run cannot be divided among Pods."""
    label = next(iter(contract.output), "")
    if not isinstance(sink, SharedStore):
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
        sink,
        plan,
        own=own,
        shards=settings.shards,
        patience=settings.claim_seconds,
        check_failed=budget.check_committed,
    )


def counts_of(commits: Mapping[int, ChunkCommit], plan: InputPlan) -> Counts:
    """The counts of a run, whichever Pods committed its chunks."""
    results = sum((commit.counts for commit in commits.values()), start=ResultCounts(0))
    usage = sum((commit.usage for commit in commits.values()), start=NO_USAGE)
    return Counts(plan.total, results.completed, results.failed, usage)

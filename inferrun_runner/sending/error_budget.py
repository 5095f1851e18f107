"""Decides when too many records have failed: `errorThreshold` and `canaryRecords` of the contract.
Pure, except for the wait.

A percentage refers to all records of the input, which are counted before the first request. So the
number of errors that are allowed is known from the start, and the run ends as soon as it is
exceeded. The first records, the canary, have a budget of their own, and nothing else is sent before
it is known how many of them failed.
"""

import asyncio
from collections.abc import Mapping

from inferrun.contract import Contract
from inferrun.error_threshold import ErrorThreshold
from inferrun.plugins import Batch, ChunkCommit, ContractError, InputPlan, RecordError, Results
from inferrun_runner.errors import TooManyErrors


class ErrorBudget:
    """Counts the failed records of one run."""

    def __init__(
        self, *, total: int, threshold: ErrorThreshold | None = None, canary: int = 0
    ) -> None:
        self.canary = min(canary, total)
        self.first_error: RecordError | None = None
        self._total = total
        self._threshold = threshold
        self._failed = 0
        self._canary_failed = 0
        self._canary_end = 0
        self.canary_passed = asyncio.Event()
        """Set when records after the canary may be sent."""

    @property
    def is_limited(self) -> bool:
        """Whether the contract says how many records may fail."""
        return self._threshold is not None

    def begin(self, plan: InputPlan, committed: Mapping[int, ChunkCommit]) -> None:
        """Take into account what earlier attempts committed. Raises TooManyErrors."""
        for chunk in plan.chunks:
            if commit := committed.get(chunk.index):
                self._failed += commit.counts.failed
                self._canary_failed += commit.counts.failed if chunk.stop <= self.canary else 0
            elif chunk.first < self.canary:
                self._canary_end = min(chunk.stop, self.canary)
        self._check()
        if self._canary_end == 0:
            self.canary_passed.set()  # its chunks are committed: an earlier attempt has judged it

    def add(self, batch: Batch, results: Results) -> None:
        """Count the errors of the next records in input order. Raises TooManyErrors."""
        if self.first_error is None and results.errors:
            self.first_error = results.errors[min(results.errors)]
        if results.errors:
            self._failed += len(results.errors)
            self._canary_failed += sum(batch.first + at < self.canary for at in results.errors)
            self._check()
        if not self.canary_passed.is_set() and batch.first + len(batch) >= self._canary_end:
            if self._threshold is None and self.canary and self._canary_failed >= self.canary:
                raise TooManyErrors(
                    f"all {self.canary} canary records failed, so the other {self._total - self.canary} were not sent{self._first}"
                )
            self.canary_passed.set()

    def check_rejections(self, rejected: int, error: RecordError) -> None:
        """Raise TooManyErrors if the server has rejected more records than may fail, before all
        their results are known."""
        if self._threshold is None:
            return
        self.first_error = self.first_error or error
        if self.canary_passed.is_set() or not self.canary:
            self._require(rejected, self._total, "")
        else:
            self._require(rejected, self.canary, "canary ")

    def check_committed(self, failed: int) -> None:
        """Raise TooManyErrors if so many errors are too many for the run, which its attempts and
        Pods have committed together."""
        self._require(failed, self._total, "")

    def _check(self) -> None:
        self._require(self._failed, self._total, "")
        self._require(self._canary_failed, self.canary, "canary ")

    def _require(self, failed: int, records: int, kind: str) -> None:
        if self._threshold is None or failed <= (allowed := self._threshold.allowed(records)):
            return
        limit = (
            f"{self._threshold} ({allowed})"
            if str(self._threshold).endswith("%")
            else str(self._threshold)
        )
        rest = f", so the other {self._total - self.canary} were not sent" if kind else ""
        raise TooManyErrors(
            f"{failed} of {records} {kind}records failed, more than errorThreshold {limit} allows{rest}{self._first}"
        )

    @property
    def _first(self) -> str:
        return f"; the first error: {self.first_error.message}" if self.first_error else ""


def budget_of(contract: Contract, *, total: int) -> ErrorBudget:
    """The budget of a run with so many records. Raises ContractError."""
    text = contract.error_threshold
    try:
        threshold = ErrorThreshold.parse(text) if text else None
    except ValueError as error:
        raise ContractError(f"errorThreshold: {error}, got {text!r}") from error
    if contract.canary_records < 0:
        raise ContractError(f"canaryRecords: must be at least 0, got {contract.canary_records}")
    return ErrorBudget(total=total, threshold=threshold, canary=contract.canary_records)

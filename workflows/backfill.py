"""The life of a back-fill: start the runs of a schedule for past times, a few at a time, and count
how they end.

One idempotent activity does a step: it looks at the runs in progress, starts more, and writes the
status. What it has to remember is carried along here. The shim signals when one of the runs has
ended.
"""

import asyncio

from temporalio import workflow

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from inferrun.text import code_span
from workflows import activity_options
from workflows.activity_execution import execute_locally, uninterrupted, wait_until
from workflows.messages import BackfillInput, BackfillProgress, BackfillResult, RecordInput
from workflows.run_state import RunState
from workflows.timing import RECHECKS

MANY_RUNS = 10
PAUSE_SECONDS = 1
"""With more than MANY_RUNS runs in progress, ends that follow each other within this time are dealt
with together."""


class BackfillFollowing:
    """`state` carries the progress, also to the workflow that continues this one."""

    def __init__(self, state: RunState) -> None:
        self._state = state

    async def follow(self) -> RecordInput:
        """Start runs until there is nothing left to start and all have ended; returns the
        outcome."""
        while True:
            seen = self._state.edit_count
            step = self._advance(is_cancelled=False)
            result, is_cancelled = await uninterrupted(step)
            if is_cancelled:
                raise asyncio.CancelledError
            if result.outcome is not None:
                return self._outcome(result)
            if workflow.info().is_continue_as_new_suggested() and workflow.all_handlers_finished():
                workflow.continue_as_new(self._state.continued())
            if result.has_more:
                continue
            await self._wait(seen, seconds=RECHECKS.soon if result.is_blocked else RECHECKS.usual)
            if len(result.progress.active) > MANY_RUNS:
                await asyncio.sleep(PAUSE_SECONDS)

    async def stop(self) -> RecordInput:
        """Cancel the runs in progress and wait until they have ended; returns the outcome."""
        while True:
            seen = self._state.edit_count
            result = await self._advance(is_cancelled=True)
            if result.outcome is not None:
                return self._outcome(result)
            await self._wait(seen, seconds=RECHECKS.soon)

    async def _advance(self, *, is_cancelled: bool) -> BackfillResult:
        progress = self._state.backfill or BackfillProgress()
        request = BackfillInput(run=self._state.run, progress=progress, is_cancelled=is_cancelled)
        ended = progress.succeeded + progress.failed
        summary = f"{'cancel' if is_cancelled else 'start'} runs: {ended} ended, {len(progress.active)} in progress"
        result = await execute_locally(
            activity_options.BACKFILL, request, BackfillResult, summary=summary
        )
        self._state.backfill = result.progress
        workflow.set_current_details(f"**{result.phase}**: {code_span(result.message)}")
        return result

    async def _wait(self, seen: int, *, seconds: float) -> None:
        await wait_until(
            lambda: self._state.edit_count != seen, seconds=seconds, summary="runs of the back-fill"
        )

    def _outcome(self, result: BackfillResult) -> RecordInput:
        reason = result.outcome or Reason.SUCCEEDED
        kind = VerdictKind.SUCCEEDED if result.phase is Phase.SUCCEEDED else VerdictKind.FAILED
        verdict = Verdict(kind=kind, reason=reason, message=result.message)
        return self._state.outcome(verdict, result.phase, reason)

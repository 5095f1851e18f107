"""Finds workflows that do not execute their run, and replaces them by recovery workflows: those
whose task fails again and again, and those of other programs, which anybody with access to Temporal
can start under the id of a run whose workflow they ended.

A workflow that somebody has paused (`temporal workflow pause`) does not execute its run either, on
purpose: the status of the run says so, and how to resume it. It is replaced once the run must end,
because a paused workflow accepts a cancellation and lets a timer fire, but acts on neither.

A workflow whose task fails does nothing: its history cannot be replayed by the workers that exist,
for instance after a downgrade. Temporal reports this per workflow only, so each round asks about a
bounded number of them, in turn; runs for which something is overdue come first.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Final

from control.log_subjects import fields_of_run
from control.survival import surviving
from inferrun import wellknown
from inferrun.kube.objects import Object, annotations_of, status_of
from inferrun.kube.runs import RunStore
from inferrun.launches.run_clock import timeout_of
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.run_status import status_after
from inferrun.temporal.executions import unpause_command
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import CORRECTABLE, News
from operator_shim.run_terms import is_schedule
from operator_shim.workflows import OpenWorkflow, RunWorkflows
from workflows.run_progress import RunProgress

logger = logging.getLogger(__name__)

CHECKS_PER_ROUND: Final = 500
CHECKS_PER_SECOND: Final = 20

FAILING_ATTEMPTS: Final = 3
"""Attempts of a workflow's task from which it counts as failing: a worker that stops during a task
costs one.
"""

STUCK_SECONDS: Final = 240.0
"""How long a workflow must have failed without any progress. A rolling upgrade takes less."""

REPAIR_PAUSE: Final = 3600.0
"""Seconds between two repairs of a run: if the recovery fails in the same way, another one does not
help.
"""


@dataclass(slots=True)
class _Check:
    asked_at: float = 0.0
    failing: OpenWorkflow | None = None
    failing_since: float = 0.0
    repaired_at: float = -math.inf


class StuckWorkflows:
    """Call `repair` once per sweep. `note_pause` hears of each run that its workflow is paused, in
    words, and with no words that it is not.
    """

    def __init__(
        self,
        runs: RunStore,
        loop: RunLoop,
        workflows: RunWorkflows,
        *,
        clock: Callable[[], float],
        stuck_seconds: float = STUCK_SECONDS,
        note_pause: Callable[[RunRef, str], None],
    ) -> None:
        self._runs = runs
        self._workflows = workflows
        self._loop = loop
        self._clock = clock
        self._stuck_seconds = stuck_seconds
        self._note_pause = note_pause
        self._checks: dict[str, _Check] = {}

    async def repair(self, watched: Iterable[Object]) -> None:
        """Ask about the workflows whose turn it is, and replace those that are stuck."""
        checks, turns = dict[str, _Check](), list[tuple[tuple[bool, float], Object]]()

        def rank(check: _Check, item: Object) -> tuple[bool, float]:
            """Those whose workflow fails, or seems to do nothing, then those that were asked about
            longest ago.
            """
            status = status_of(item)
            is_cancelled = wellknown.ANNOTATION_CANCEL_REQUESTED in annotations_of(item)
            is_accepted = (status.get("phase"), status.get("reason")) == (
                Phase.PENDING,
                Reason.ACCEPTED,
            )
            return check.failing is None and not is_cancelled and not is_accepted, check.asked_at

        for item in watched:
            with surviving("the choice of a workflow to check", about=item):
                if may_have_workflow(item):
                    uid = item["metadata"]["uid"]
                    check = checks[uid] = self._checks.get(uid) or _Check()
                    turns.append((rank(check, item), item))
        self._checks = checks
        for _, item in sorted(turns, key=itemgetter(0))[:CHECKS_PER_ROUND]:
            await self.check(item)
            await asyncio.sleep(1 / CHECKS_PER_SECOND)

    async def check(self, item: Object) -> None:
        """Ask about the workflow of one run, and deal with it."""
        with surviving("the check of a workflow", about=item):
            await self._check(item)

    async def end_paused(self, run: RunRef) -> None:
        """End the workflow of a run that is gone or has ended, if it is paused: a cancellation has
        no effect on it.
        """
        found = await self._workflows.find_open(run)
        if found is not None and found.pause:
            logger.warning("ending a paused workflow whose run has ended", extra=fields_of_run(run))
            await self._workflows.terminate(
                found, reason=f"InferenceRun {run} has ended or no longer exists"
            )

    async def _check(self, item: Object) -> None:
        run = RunRef.of(item)
        check = self._checks.setdefault(run.uid, _Check())
        check.asked_at = self._clock()
        found = await self._workflows.find_open(run)
        before, check.failing = check.failing, None
        is_paused = found is not None and found.is_ours and bool(found.pause)
        if not is_paused:
            self._note_pause(run, "")
            if is_said_to_be_paused(item):
                # its next step says in the status what the run waits for
                self._loop.wake(run, News.AWAITED_CHANGED)
        if found is not None and is_paused:
            await self._attend(run, found)
        elif found is not None and not found.is_ours:
            fields = {**fields_of_run(run), "workflow": found.id}
            logger.warning("another program's workflow has the id of a run", extra=fields)
            reason = f"the id is that of the workflow that executes InferenceRun {run}"
            await self._workflows.terminate(found, reason=reason)
            self._loop.wake(run, News.LOST, background=True)
        elif found is not None and found.task_attempt >= FAILING_ATTEMPTS:
            check.failing = found
            if before is None or (before.run_id, before.events) != (found.run_id, found.events):
                check.failing_since = check.asked_at  # it made progress in between
            is_repaired = check.asked_at - check.repaired_at < REPAIR_PAUSE
            if check.asked_at - check.failing_since >= self._stuck_seconds and not is_repaired:
                check.repaired_at = check.asked_at
                why = f"the task of workflow {found.id} failed {found.task_attempt} times in a row"
                fix = "If this recurs, upgrade the workers to the version of the shim; their log says why the task fails"
                await self._replace(run, found, why=why, fix=fix)

    async def _attend(self, run: RunRef, paused: OpenWorkflow) -> None:
        stored = await self._runs.read(run)
        if stored is None or stored.status.is_terminal:
            return
        if due := must_end_because(stored, now=self._runs.now()):
            why = f"workflow {paused.id} is {paused.pause}, and {due}"
            await self._replace(run, paused, why=why, fix="A pause keeps no run from ending")
            return
        text = pause_text(paused)
        self._note_pause(run, text)

        def decide(current: InferenceRun) -> InferenceRunStatus | None:
            status, said = current.status, current.status.message or ""
            if status.reason == Reason.WORKFLOW_PAUSED and said.endswith(text):
                return None
            message = "; ".join(filter(None, (said.partition(f"; {PAUSED}")[0], text)))
            phase = status.phase or Phase.PENDING
            return status_after(
                current,
                phase=phase,
                reason=Reason.WORKFLOW_PAUSED,
                message=message,
                now=self._runs.now(),
            )

        await self._runs.update_status(run, decide, read=stored)

    async def _replace(self, run: RunRef, stuck: OpenWorkflow, *, why: str, fix: str) -> None:
        recovery = recover_workflow_id(run_workflow_id(run))
        message = f"{why}; {recovery} replaces it. {fix}"
        logger.warning(
            "replacing a workflow that is stuck", extra={**fields_of_run(run), "workflow": stuck.id}
        )

        def decide(current: InferenceRun) -> InferenceRunStatus:
            phase = current.status.phase or Phase.PENDING
            return status_after(
                current,
                phase=phase,
                reason=Reason.WORKFLOW_STUCK,
                message=message,
                now=self._runs.now(),
            )

        await self._runs.update_status(run, decide)
        await self._workflows.terminate(stuck, reason=message)
        self._loop.wake(run, News.LOST, background=True)


PAUSED: Final = "its workflow is paused"


def pause_text(paused: OpenWorkflow) -> str:
    """What the status of a run says about its paused workflow, after what it says about the run
    itself.
    """
    return f"its workflow is {paused.pause}: nothing follows until it is resumed with {unpause_command(paused.id)}"


def is_said_to_be_paused(item: Object) -> bool:
    """Whether the status of a run says that its workflow is paused."""
    return bool(status_of(item).get("reason") == Reason.WORKFLOW_PAUSED)


def must_end_because(run: InferenceRun, *, now: datetime) -> str:
    """Why a run must end although its workflow is paused; empty if it need not."""
    if run.metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) == "true":
        return "the run is to be cancelled"
    limit, since = timeout_of(run.spec), run.status.running_since
    if limit and since is not None:
        used = RunProgress.shown_in(run.status).seconds_used + (now - since).total_seconds()
        if used >= limit:
            return f"the run has used the {limit} s of its timeoutSeconds"
    return ""


def has_workflow(item: Object) -> bool:
    """Whether a workflow should be executing the run, from the plain object: there may be ten
    thousand.

    A run that is rejected, or that waits because its namespace has too many active runs, has no
    workflow yet.
    """
    return may_have_workflow(item) and status_of(item).get("reason") not in CORRECTABLE


def may_have_workflow(item: Object) -> bool:
    """Whether a workflow may execute the run, or keep its id. The status of a run that waited for
    others to end, or was corrected, says so until its first launch. A run without a phase is new,
    or the Krateo controller's; a paused one is left alone.
    """
    metadata, phase = item["metadata"], status_of(item).get("phase")
    is_paused = annotations_of(item).get(wellknown.ANNOTATION_PAUSED) == "true"
    is_left_alone = is_paused or metadata.get("deletionTimestamp") or is_schedule(item)
    return phase in (Phase.PENDING, Phase.RUNNING, Phase.SUSPENDED) and not is_left_alone

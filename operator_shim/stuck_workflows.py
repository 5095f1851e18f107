"""Finds workflows that do not execute their run, and replaces them by recovery workflows: those whose task fails again and again,
and those of other programs, which anybody with access to Temporal can start under the id of a run whose workflow they ended.

A workflow whose task fails does nothing: its history cannot be replayed by the workers that exist, for instance after a
downgrade. Temporal reports this per workflow only, so each round asks about a bounded number of them, in turn; runs for
which something is overdue come first.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from control.informer import Key
from control.log_subjects import fields_of_run
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.run_status import status_after
from operator_shim.decisions import CORRECTABLE
from operator_shim.workflows import OpenWorkflow, RunWorkflows

logger = logging.getLogger(__name__)

CHECKS_PER_ROUND: Final = 500
CHECKS_PER_SECOND: Final = 20

FAILING_ATTEMPTS: Final = 3
"""Attempts of a workflow's task from which it counts as failing: a worker that stops during a task costs one."""

STUCK_SECONDS: Final = 240.0
"""How long a workflow must have failed without any progress. A rolling upgrade takes less."""

REPAIR_PAUSE: Final = 3600.0
"""Seconds between two repairs of a run: if the recovery fails in the same way, another one does not help."""


@dataclass(slots=True)
class _Check:
    asked_at: float = 0.0
    failing: OpenWorkflow | None = None
    failing_since: float = 0.0
    repaired_at: float = -math.inf


class StuckWorkflows:
    """Call `repair` once per sweep. `ensure_again` queues a run to make sure that a workflow executes it, by its key and UID."""

    def __init__(
        self,
        runs: RunStore,
        workflows: RunWorkflows,
        *,
        ensure_again: Callable[[Key, str], None],
        clock: Callable[[], float],
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._runs = runs
        self._workflows = workflows
        self._ensure_again = ensure_again
        self._clock = clock
        self._stuck_seconds = stuck_seconds
        self._checks: dict[str, _Check] = {}

    async def repair(self, watched: Iterable[tuple[Key, Object]]) -> None:
        """Ask about the workflows whose turn it is, and replace those that are stuck."""
        unfinished = {item["metadata"]["uid"]: (key, item) for key, item in watched if may_have_workflow(item)}
        self._checks = {uid: self._checks.get(uid) or _Check() for uid in unfinished}

        def rank(uid: str) -> tuple[bool, float]:
            """Those whose workflow fails, or seems to do nothing, then those that were asked about longest ago."""
            check, (_, item) = self._checks[uid], unfinished[uid]
            metadata, status = item["metadata"], item.get("status") or {}
            is_cancelled = wellknown.ANNOTATION_CANCEL_REQUESTED in (metadata.get("annotations") or {})
            is_accepted = (status.get("phase"), status.get("reason")) == (Phase.PENDING, Reason.ACCEPTED)
            return check.failing is None and not is_cancelled and not is_accepted, check.asked_at

        for uid in sorted(unfinished, key=rank)[:CHECKS_PER_ROUND]:
            await self._check(unfinished[uid][0], uid, self._checks[uid])
            await asyncio.sleep(1 / CHECKS_PER_SECOND)

    async def _check(self, key: Key, uid: str, check: _Check) -> None:
        run = RunRef(namespace=key[0], name=key[1], uid=uid)
        check.asked_at = self._clock()
        found = await self._workflows.find_open(run)
        before, check.failing = check.failing, None
        if found is not None and not found.is_ours:
            fields = {**fields_of_run(run), "workflow": found.id}
            logger.warning("another program's workflow has the id of a run", extra=fields)
            reason = f"the id is that of the workflow that executes InferenceRun {run}"
            await self._workflows.terminate(found, reason=reason)
            self._ensure_again(key, uid)
        elif found is not None and found.task_attempt >= FAILING_ATTEMPTS:
            check.failing = found
            if before is None or (before.run_id, before.events) != (found.run_id, found.events):
                check.failing_since = check.asked_at  # it made progress in between
            is_repaired = check.asked_at - check.repaired_at < REPAIR_PAUSE
            if check.asked_at - check.failing_since >= self._stuck_seconds and not is_repaired:
                check.repaired_at = check.asked_at
                await self._replace(key, run, found)

    async def _replace(self, key: Key, run: RunRef, stuck: OpenWorkflow) -> None:
        recovery = recover_workflow_id(run_workflow_id(run))
        message = (
            f"the task of workflow {stuck.id} failed {stuck.task_attempt} times in a row; {recovery} replaces it. If this "
            "recurs, upgrade the workers to the version of the shim; their log says why the task fails"
        )
        logger.warning("replacing a workflow that is stuck", extra={**fields_of_run(run), "workflow": stuck.id})

        def decide(current: InferenceRun) -> InferenceRunStatus:
            phase = current.status.phase or Phase.PENDING
            return status_after(
                current, phase=phase, reason=Reason.WORKFLOW_STUCK, message=message, now=self._runs.now()
            )

        await self._runs.update_status(run, decide)
        await self._workflows.terminate(stuck, reason=message)
        self._ensure_again(key, run.uid)


def has_workflow(item: Object) -> bool:
    """Whether a workflow should be executing the run, from the plain object: there may be ten thousand.

    A run that is rejected, or that waits because its namespace has too many active runs, has no workflow yet.
    """
    return may_have_workflow(item) and (item.get("status") or {}).get("reason") not in CORRECTABLE


def may_have_workflow(item: Object) -> bool:
    """Whether a workflow may execute the run, or keep its id. The status of a run that waited for others to end, or was corrected,
    says so until its first launch. A run without a phase is new, or the Krateo controller's; a paused one is left alone.
    """
    metadata, phase = item["metadata"], (item.get("status") or {}).get("phase")
    is_paused = (metadata.get("annotations") or {}).get(wellknown.ANNOTATION_PAUSED) == "true"
    is_left_alone = is_paused or metadata.get("deletionTimestamp") or item["spec"].get("schedule") is not None
    return phase in (Phase.PENDING, Phase.RUNNING, Phase.SUSPENDED) and not is_left_alone

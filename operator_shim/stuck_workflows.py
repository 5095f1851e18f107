"""Finds workflows that do not execute their run, and replaces them by recovery workflows: those whose task fails again and again,
and those of other programs, which anybody with access to Temporal can start under the id of a run whose workflow they ended.

A workflow whose task fails does nothing: its history cannot be replayed by the workers that exist, for instance after a
downgrade. Temporal reports this per workflow only, so each round asks about a bounded number of them, in turn; runs for
which something is overdue come first.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from control.informer import Key
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.run_status import status_after
from inferrun.timestamps import utc_now

logger = logging.getLogger(__name__)

CHECKS_PER_ROUND: Final = 500
CHECKS_PER_SECOND: Final = 20

FAILING_ATTEMPTS: Final = 3
"""Attempts of a workflow's task from which it counts as failing: a worker that stops during a task costs one."""

STUCK_SECONDS: Final = 240.0
"""How long a workflow must have failed without any progress. A rolling upgrade takes less."""

REPAIR_PAUSE: Final = 3600.0
"""Seconds between two repairs of a run: if the recovery fails in the same way, another one does not help."""


@dataclass(frozen=True)
class OpenWorkflow:
    """The open workflow under the id of a run: how often its task was tried, and the length of its history."""

    id: str
    run_id: str
    task_attempt: int
    events: int
    is_ours: bool = True
    """Whether this installation executes it."""


class WorkflowAccess(Protocol):
    """What this needs of Temporal; `RunWorkflows` provides it."""

    async def find_open(self, run: RunRef) -> OpenWorkflow | None:
        """The open workflow under one of the run's ids."""

    async def terminate(self, workflow: OpenWorkflow, *, reason: str) -> None:
        """End a workflow that cannot end on its own."""


class EnsureAgain(Protocol):
    """Makes sure that a workflow executes the run."""

    def __call__(self, key: Key, uid: str, /, *, background: bool) -> None:
        """Queue the run of that key and UID."""


class StuckWorkflows:
    """Call `repair` once per sweep."""

    def __init__(
        self,
        runs: RunStore,
        workflows: WorkflowAccess,
        *,
        ensure_again: EnsureAgain,
        clock: Callable[[], float],
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._runs = runs
        self._workflows = workflows
        self._ensure_again = ensure_again
        self._clock = clock
        self._stuck_seconds = stuck_seconds
        self._failing: dict[str, tuple[OpenWorkflow, float]] = {}
        self._repaired: dict[str, float] = {}
        self._checked: dict[str, float] = {}

    async def repair(self, watched: Iterable[tuple[Key, Object]]) -> None:
        """Ask about the workflows whose turn it is, and replace those that are stuck."""
        unfinished = {item["metadata"]["uid"]: (key, item) for key, item in watched if _is_executed(item)}
        self._forget(unfinished.keys())
        order = sorted(unfinished, key=lambda uid: self._rank(uid, unfinished[uid][1]))
        for uid in order[:CHECKS_PER_ROUND]:
            await self._check(unfinished[uid][0], uid)
            await asyncio.sleep(1 / CHECKS_PER_SECOND)

    def _rank(self, uid: str, item: Object) -> tuple[bool, float]:
        """Suspects first, then those that were asked about longest ago."""
        return not (uid in self._failing or is_overdue(item)), self._checked.get(uid, 0.0)

    async def _check(self, key: Key, uid: str) -> None:
        run = RunRef(namespace=key[0], name=key[1], uid=uid)
        now = self._clock()
        self._checked[uid] = now
        found = await self._workflows.find_open(run)
        if found is not None and not found.is_ours:
            await self._evict(key, run, found)
            return
        if found is None or found.task_attempt < FAILING_ATTEMPTS:
            self._failing.pop(uid, None)
            return
        known, since = self._failing.get(uid, (found, now))
        if (known.run_id, known.events) != (found.run_id, found.events):
            since = now  # it made progress in between
        self._failing[uid] = found, since
        is_repaired = now - self._repaired.get(uid, -REPAIR_PAUSE) < REPAIR_PAUSE
        if now - since >= self._stuck_seconds and not is_repaired:
            self._repaired[uid] = now
            await self._replace(key, run, found)

    async def _evict(self, key: Key, run: RunRef, foreign: OpenWorkflow) -> None:
        logger.warning(
            "another program's workflow has the id of a run", extra={"run": str(run), "workflow": foreign.id}
        )
        reason = f"the id is that of the workflow that executes InferenceRun {run}"
        await self._workflows.terminate(foreign, reason=reason)
        self._ensure_again(key, run.uid, background=False)

    async def _replace(self, key: Key, run: RunRef, stuck: OpenWorkflow) -> None:
        recovery = recover_workflow_id(run_workflow_id(run))
        message = (
            f"the task of workflow {stuck.id} failed {stuck.task_attempt} times in a row; {recovery} replaces it. If this "
            "recurs, upgrade the workers to the version of the shim; their log says why the task fails"
        )
        logger.warning("replacing a workflow that is stuck", extra={"run": str(run), "workflow": stuck.id})
        await self._runs.update_status(run, lambda current: _stuck_status(current, message))
        await self._workflows.terminate(stuck, reason=message)
        self._ensure_again(key, run.uid, background=False)

    def _forget(self, uids: Iterable[str]) -> None:
        kept = set(uids)
        self._failing = {uid: value for uid, value in self._failing.items() if uid in kept}
        self._repaired = {uid: value for uid, value in self._repaired.items() if uid in kept}
        self._checked = {uid: value for uid, value in self._checked.items() if uid in kept}


def is_overdue(item: Object) -> bool:
    """Whether the status of an unfinished run suggests that its workflow does nothing."""
    metadata, status = item["metadata"], item.get("status") or {}
    is_cancelled = wellknown.ANNOTATION_CANCEL_REQUESTED in (metadata.get("annotations") or {})
    return is_cancelled or (status.get("phase") == Phase.PENDING and status.get("reason") == Reason.ACCEPTED)


def _is_executed(item: Object) -> bool:
    """Whether a workflow should be executing the run."""
    phase = (item.get("status") or {}).get("phase")
    return item["spec"].get("schedule") is None and phase not in (None, Phase.SUCCEEDED, Phase.FAILED)


def _stuck_status(run: InferenceRun, message: str) -> InferenceRunStatus:
    phase = run.status.phase or Phase.PENDING
    return status_after(run, phase=phase, reason=Reason.WORKFLOW_STUCK, message=message, now=utc_now())

"""Deletes the finished runs of a schedule that its history limits do not keep, except those that have only just ended: these are
deleted later, by a clean-up workflow.
"""

import math
from collections.abc import Awaitable, Callable

from activities.cluster.children import list_children
from activities.cluster.deletion import delete_if_present
from activities.cluster.events import EventRecorder
from activities.rules.child_runs import KEPT, seconds_kept, to_prune
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef

Postpone = Callable[[RunRef, int], Awaitable[None]]
"""Has a run pruned after so many seconds; may raise RPCError."""


class HistoryPruner:
    """Prunes the runs of any schedule."""

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        events: EventRecorder,
        postpone: Postpone,
    ) -> None:
        self._api = api
        self._runs = runs
        self._events = events
        self._postpone = postpone

    async def prune(self, parent: RunRef, *, ending: RunRef | None = None) -> list[str]:
        """Delete the finished runs beyond the parent's history limits; returns the names of those deleted.

        The one that is `ending`, whose workflow is asking, is always deleted later, however long ago its outcome was written.

        Raises KubeError, RPCError, and pydantic.ValidationError if a stored run cannot be parsed.
        """
        schedule = await self._runs.read(parent)
        if schedule is None:
            return []
        deleted = []
        for child in to_prune(schedule, await list_children(self._api, parent)):
            left = KEPT.total_seconds() if child.ref == ending else seconds_kept(child, now=self._api.now())
            if left:
                await self._postpone(child.ref, math.ceil(left))
                continue
            name, limit = child.metadata.name, _limit_of(child)
            message = (
                f"InferenceRun {name} ({child.status.phase}) is deleted: {limit} of {parent.name} keeps no more runs"
            )
            await self._events.record(child.ref, reason=Reason.HISTORY_PRUNED, message=message, is_warning=False)
            if await delete_if_present(self._api, RUNS, parent.namespace, name, uid=child.metadata.uid):
                await self._events.record(parent, reason=Reason.HISTORY_PRUNED, message=message, is_warning=False)
                deleted.append(name)
        return deleted


def _limit_of(child: InferenceRun) -> str:
    """The field that limits runs of this outcome."""
    is_success = child.status.phase is Phase.SUCCEEDED
    return "successfulJobsHistoryLimit" if is_success else "failedJobsHistoryLimit"

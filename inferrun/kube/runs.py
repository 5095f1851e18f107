"""Reads runs and writes their status: read, decide, write conditionally, and on a conflict read and
decide again.

A terminal status is never overwritten: `decide` is not called for a run that has ended. If the
decision changes nothing, nothing is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_ref import RunRef

Decide = Callable[[InferenceRun], InferenceRunStatus | None]
"""Maps a run that has not ended to its new status, or to None to leave it unchanged."""

MAX_CONFLICTS = 20
"""Consecutive conflicts after which an update gives up: another writer keeps changing the
object."""


@dataclass(frozen=True)
class Written:
    """The run after an update: `run` is None if it no longer exists, `changed` says whether this
    update wrote to it."""

    run: InferenceRun | None
    changed: bool = False


class RunStore:
    """The runs of a cluster."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api

    def now(self) -> datetime:
        """The API server's time, by which the times in runs are."""
        return self._api.now()

    async def read(self, run: RunRef) -> InferenceRun | None:
        """The current run; None if it is gone, is being deleted, or another run has its name."""
        found = await self._read(run)
        return None if found is None or found.metadata.is_being_deleted else found

    async def is_gone(self, run: RunRef) -> bool:
        """Whether the run does not exist any more; one that is being deleted still does."""
        return await self._read(run) is None

    async def find(self, namespace: str, name: str) -> InferenceRun | None:
        """The run that has this name now, also one that is being deleted; None if there is none."""
        stored = await self._api.find(RUNS, namespace, name)
        return parse_run(stored) if stored is not None else None

    async def _read(self, run: RunRef) -> InferenceRun | None:
        """Also returns a run that a finalizer keeps from being deleted, because its outcome is
        still recorded."""
        found = await self.find(run.namespace, run.name)
        return found if found is not None and found.ref == run else None

    async def update_status(
        self, run: RunRef, decide: Decide, *, read: InferenceRun | None = None
    ) -> Written:
        """Write the status that `decide` returns; `read` is the run if the caller has read it.

        A run that has changed since is read again, because the write is conditional on its version.

        Raises Conflict after MAX_CONFLICTS conflicts in a row.
        """
        current = read
        for _ in range(MAX_CONFLICTS):
            current = current or await self._read(run)
            if current is None:
                return Written(None)
            if current.status.is_terminal:
                return Written(current)
            wanted = decide(current)
            if wanted is None or wanted == current.status:
                return Written(current)
            patch = {
                "apiVersion": wellknown.API_VERSION,
                "kind": wellknown.RUN_KIND,
                "metadata": {
                    "uid": current.metadata.uid,
                    "resourceVersion": current.metadata.resource_version,
                },
                "status": merge_patch(current.status.to_manifest(), wanted.to_manifest()),
            }
            try:
                stored = await self._api.patch(RUNS, run.namespace, run.name, patch, sub="status")
            except NotFound:
                return Written(None)
            except Conflict:
                current = None
                continue
            return Written(parse_run(stored), changed=True)
        raise Conflict(f"the status of run {run} kept changing", status=409)


def merge_patch(before: Object, after: Object) -> Object:
    """The merge patch (RFC 7386) from one object to another; a removed member is listed as null."""
    patch: Object = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif old != value:
            patch[key] = value
    return patch

"""Reads runs and writes their status: read, decide, write on condition of what was read, decide again on a conflict.

A terminal status is never written over: the decision does not even get to see one. When a decision changes nothing,
nothing is written.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run

Decide = Callable[[InferenceRun], InferenceRunStatus | None]
"""From a run that has not ended to its new status, or None to leave it."""

MAX_CONFLICTS = 20
"""Conflicts in a row that are met by reading again; more mean that somebody fights for the object."""


@dataclass(frozen=True)
class Written:
    """What the status is after an update: `run` is None where the run is gone, `changed` says whether we wrote."""

    run: InferenceRun | None
    changed: bool = False


class RunStore:
    """The runs of a cluster."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api

    async def read(self, namespace: str, name: str, uid: str) -> InferenceRun | None:
        """The run as it is now; None where it is gone, being deleted, or another one of that name."""
        run = await self._read(namespace, name, uid)
        return None if run is None or run.metadata.is_being_deleted else run

    async def _read(self, namespace: str, name: str, uid: str) -> InferenceRun | None:
        """Also one that is being deleted and held by somebody's finalizer: its end is told all the same."""
        try:
            stored = await self._api.get(RUNS, namespace, name)
        except NotFound:
            return None
        run = parse_run(stored)
        return run if run.metadata.uid == uid else None

    async def update_status(
        self, namespace: str, name: str, uid: str, decide: Decide, *, read: InferenceRun | None = None
    ) -> Written:
        """Write what `decide` says; `read` is the run where the caller has just read it."""
        run = read
        for _ in range(MAX_CONFLICTS):
            run = run or await self._read(namespace, name, uid)
            if run is None:
                return Written(None)
            if run.status.is_terminal:
                return Written(run)
            wanted = decide(run)
            if wanted is None or wanted == run.status:
                return Written(run)
            try:
                stored = await self._api.patch(RUNS, namespace, name, _patch(run, wanted), sub="status")
            except NotFound:
                return Written(None)
            except Conflict:
                run = None
                continue
            return Written(parse_run(stored), changed=True)
        raise Conflict(f"the status of run {namespace}/{name} kept changing", status=409)


def _patch(run: InferenceRun, wanted: InferenceRunStatus) -> Object:
    """A merge patch of what differs; what is unset now is removed."""
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "metadata": {"uid": run.metadata.uid, "resourceVersion": run.metadata.resource_version},
        "status": merge_patch(run.status.to_manifest(), wanted.to_manifest()),
    }


def merge_patch(before: Object, after: Object) -> Object:
    """What turns one object into another (RFC 7386): merging goes into objects, so a member that went must be named."""
    patch: Object = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif old != value:
            patch[key] = value
    return patch

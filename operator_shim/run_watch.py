"""The shim's watch of runs: the only one, from which everything in the process reads and hears of
changes.

Cached runs are trimmed. A run under way is kept for months, with a contract of up to hundreds of
kilobytes, and finished runs are kept as well. Its spec can no longer change except for two fields,
and of its status the shim writes only why it waits, its progress and `observedGeneration`. Runs are
found by terms, so that no event costs more because many runs have finished.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Final

from control.informer import Key, Listener
from control.launches.trimming import Share, interned, unshared
from control.namespaced_informers import NamespacedInformers
from control.survival import surviving
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import RUNS, Object, status_of
from inferrun.reasons import Phase
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from operator_shim.run_preview import RunPreview
from operator_shim.run_terms import is_schedule, terms_of

CONTRACT: Final = "e30="
"""Replaces a contract in the cache: the shim asks only whether there is one. Equal before and
after, it is never written.
"""

_ENDED_STATUS: Final = ("phase", "reason", "observedGeneration", "completionTime", "deleteAfter")
_STATUS: Final = (
    "phase",
    "reason",
    "message",
    "observedGeneration",
    "startTime",
    "runningSince",
    "records",
    "pace",
    "usage",
    "attempt",
    "endedLaunches",
    "model",
    "jobStatus",
)
"""The fields that the shim writes in the status of a run under way, or by which it decides. A field
that the cached run lacks would not be removed.
"""

_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "conditions": ("type", "status", "lastTransitionTime"),
    "attempts": ("launch", "attempt", "replaced", "podName"),
}

_SPEC: Final = ("configRef", "timeoutSeconds", "suspend")
_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
    "finalizers",
)
_ANNOTATIONS: Final = (
    wellknown.ANNOTATION_CANCEL_REQUESTED,
    wellknown.ANNOTATION_PAUSED,
    wellknown.ANNOTATION_STARTED_AS,
    wellknown.ANNOTATION_WORKFLOW_ID,
    wellknown.ANNOTATION_SCHEDULED_TIME,
    wellknown.ANNOTATION_BACKFILL,
)


def trim_run(run: Object, *, share: Share = unshared) -> Object:
    """The run as the shim needs it; one that has no contract yet, and a schedule, are kept
    whole."""
    status = status_of(run)
    if is_schedule(run) or not status.get("contract") or not status.get("phase"):
        return run
    metadata = {key: interned(run["metadata"][key]) for key in _METADATA if key in run["metadata"]}
    for field, keys in (
        ("annotations", _ANNOTATIONS),
        ("labels", (wellknown.LABEL_SCHEDULE_UID, wellknown.LABEL_BACKFILL)),
    ):
        values = run["metadata"].get(field) or {}
        if kept := {key: values[key] for key in keys if key in values}:
            metadata[field] = kept
    has_ended = status["phase"] in (Phase.SUCCEEDED, Phase.FAILED)
    fields = _ENDED_STATUS if has_ended else _STATUS
    trimmed: Object = {"contract": CONTRACT} | {
        key: interned(status[key]) for key in fields if status.get(key) is not None
    }
    for field, part in _PARTS.items():
        if not has_ended and (parts := status.get(field)):
            trimmed[field] = [share({key: one[key] for key in part if key in one}) for one in parts]
    return {
        "apiVersion": interned(run.get("apiVersion")),
        "kind": interned(run.get("kind")),
        "metadata": metadata,
        "spec": {key: run["spec"][key] for key in _SPEC if key in run["spec"]},
        "status": trimmed,
    }


SHARED_LIMIT = 2_000
"""Distinct parts of objects that are remembered for sharing; beyond that, sharing begins anew."""


class SharedParts:
    """Equal parts of cached objects, kept once: thousands of Pods and runs are nearly the same.
    Nothing may change a cached object.
    """

    def __init__(self) -> None:
        self._parts: dict[str, Object] = {}

    def __call__(self, part: Object) -> Object:
        """An equal part that was shared before, or this one."""
        if len(self._parts) >= SHARED_LIMIT:
            self._parts.clear()
        return self._parts.setdefault(json.dumps(part), part)


Inspector = Callable[[Object | None, Object], None]
"""Called with a run as it was cached, None if it was not, and as it arrived: whole. Must not block
or change them.
"""


class RunWatch(NamespacedInformers):
    """The shim runs it as one task, after everything has subscribed."""

    def __init__(
        self,
        api: KubeClient,
        *,
        namespaces: Namespaces,
        defaults: Callable[[], Defaults] = Defaults,
    ) -> None:
        """`defaults` say whether the active runs of a namespace are limited."""
        self._api = api
        self._defaults = defaults
        self._listeners: list[Listener] = []
        self._inspectors: list[Inspector] = []
        self._share = SharedParts()
        super().__init__(
            api,
            RUNS,
            namespaces=namespaces,
            transform=self._take,
            listener=self._tell,
            terms=terms_of,
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for place in self.places:
                tasks.create_task(self._preview_until_listed(place))
            tasks.create_task(super().run())

    def subscribe(self, listener: Listener) -> None:
        """Call it for every change, with the run before and after."""
        self._listeners.append(listener)

    def inspect(self, inspector: Inspector) -> None:
        """Call it for every newer version of a cached run and, once its namespace has been listed,
        for every run that is created.
        """
        self._inspectors.append(inspector)

    def seen(self, ref: RunRef) -> Object | None:
        """The run as last seen; None if it is not watched, or another one has its name."""
        run = self.get(ref.namespace, ref.name)
        return run if run is not None and run["metadata"]["uid"] == ref.uid else None

    async def _preview_until_listed(self, place: str | None) -> None:
        preview = RunPreview(
            self._api, place, show=self.preview, is_room_limited=self._is_room_limited
        )
        previewing = asyncio.create_task(preview.run())
        try:
            await self.until_listed(place)
        finally:
            previewing.cancel()
            await asyncio.gather(previewing, return_exceptions=True)

    def _is_room_limited(self) -> bool:
        return bool(self._defaults().max_active_runs_per_namespace)

    def _take(self, run: Object) -> Object:
        metadata = run["metadata"]
        cached = self.get(metadata["namespace"], metadata["name"])
        before = (
            cached if cached is not None and cached["metadata"]["uid"] == metadata["uid"] else None
        )
        is_change = before is not None or self.has_listed(metadata["namespace"])
        for inspector in self._inspectors if is_change else ():
            # which must be cached whatever becomes of this
            with surviving("the inspection of a run", about=run):
                inspector(before, run)
        return trim_run(run, share=self._share)

    def _tell(self, key: Key, before: Object | None, after: Object | None) -> None:
        for listener in self._listeners:
            with surviving("what follows from a change of a run", about=after or before):
                listener(key, before, after)

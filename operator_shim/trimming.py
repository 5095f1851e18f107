"""Trims runs for the cache of the shim. Pure.

A run under way is kept for months, with a contract of up to hundreds of kilobytes, and finished runs are kept as well. Its
spec can no longer change except for two fields, and of its status the shim writes only why it waits, its progress and
`observedGeneration`.
"""

from typing import Final

from activities.watching.trimming import Share, interned, unshared
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.reasons import Phase

CONTRACT: Final = "e30="
"""Replaces a contract in the cache: the shim asks only whether there is one. Equal before and after, it is never written."""

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
    "attempt",
    "endedLaunches",
    "model",
    "jobStatus",
)
"""The fields that the shim writes in the status of a run under way, or by which it decides. A field that the cached run lacks would
not be removed."""

_CONDITION: Final = ("type", "status", "lastTransitionTime")

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
    wellknown.ANNOTATION_WORKFLOW_ID,
    wellknown.ANNOTATION_SCHEDULED_TIME,
    wellknown.ANNOTATION_BACKFILL,
)


def trim_run(run: Object, *, share: Share = unshared) -> Object:
    """The run as the shim needs it; one that has no contract yet, and a schedule, are kept whole."""
    status = run.get("status") or {}
    if run["spec"].get("schedule") is not None or not status.get("contract") or not status.get("phase"):
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
    if not has_ended and (conditions := status.get("conditions")):
        trimmed["conditions"] = [share({key: one[key] for key in _CONDITION if key in one}) for one in conditions]
    return {
        "apiVersion": interned(run.get("apiVersion")),
        "kind": interned(run.get("kind")),
        "metadata": metadata,
        "spec": {key: run["spec"][key] for key in _SPEC if key in run["spec"]},
        "status": trimmed,
    }

"""What the shim's cache keeps of runs. Pure.

A run under way is kept for months, with a contract of up to hundreds of kilobytes, and finished runs are kept as well. Its
spec can no longer change except for two fields, and the shim writes nothing of its status but `observedGeneration`.
"""

import sys
from typing import Final

from inferrun import wellknown
from inferrun.kube.objects import Object
from operator_shim.model_waits import MODEL_WAITS

CONTRACT: Final = "e30="
"""Replaces a contract in the cache: the shim asks only whether there is one. Equal before and after, it is never written."""

_STATUS: Final = ("phase", "reason", "observedGeneration", "completionTime", "deleteAfter")
_WAITING_STATUS: Final = ("message", "model", "jobStatus", "endedLaunches")
"""Of a run that waits for its model."""

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
)


def trim_run(run: Object) -> Object:
    """The run as the shim needs it; one that has no contract yet, and a schedule, are kept whole."""
    status = run.get("status") or {}
    if run["spec"].get("schedule") is not None or not status.get("contract") or not status.get("phase"):
        return run
    metadata = {key: _shared(run["metadata"][key]) for key in _METADATA if key in run["metadata"]}
    for field, keys in (("annotations", _ANNOTATIONS), ("labels", (wellknown.LABEL_SCHEDULE_UID,))):
        values = run["metadata"].get(field) or {}
        if kept := {key: values[key] for key in keys if key in values}:
            metadata[field] = kept
    kept_status = (*_STATUS, *_WAITING_STATUS) if status.get("reason") in MODEL_WAITS else _STATUS
    return {
        "apiVersion": _shared(run.get("apiVersion")),
        "kind": _shared(run.get("kind")),
        "metadata": metadata,
        "spec": {key: run["spec"][key] for key in _SPEC if key in run["spec"]},
        "status": {"contract": CONTRACT} | {key: _shared(status[key]) for key in kept_status if key in status},
    }


def _shared(value: object) -> object:
    """The one copy of a string that many runs hold, such as their namespace or phase."""
    return sys.intern(value) if type(value) is str else value

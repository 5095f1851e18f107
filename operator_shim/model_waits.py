"""Which runs wait for which object of KServe, and whether a change of the object is reason to look again. Pure.

A waiting run holds nothing but its entry here. Its status says what the launch saw of the object; as soon as the object says
something else, the run's workflow is signalled. So it does not matter which of the two was seen first.
"""

from datetime import datetime
from typing import Final

from control.kserve_absence import too_large
from inferrun.contract import ServiceRef
from inferrun.kserve import Answer, NotYet, Wanted, resolve
from inferrun.kube.objects import Object, unreadable_because
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Phase, Reason
from inferrun.resources.scalars import MESSAGE_LIMIT
from inferrun.text import one_line

MODEL_WAITS: Final = (Reason.MODEL_NOT_READY, Reason.KSERVE_NOT_INSTALLED)
"""The reasons of a run that a change of its model may unblock."""

RunKey = tuple[str, str]
"""Namespace and name of a run."""

WAIT: Final = "wait"
"""The message in a digest; None if a launch would not wait, or fail, because of the object."""

_UNTIL: Final = "until"


def awaited_service(run: Object) -> ServiceRef | None:
    """The object whose state the run waits for before its Job is created; None if it waits for nothing of that kind."""
    status = run.get("status") or {}
    model = status.get("model") or {}
    is_waiting = status.get("phase") == Phase.PENDING and status.get("reason") in MODEL_WAITS
    if not is_waiting or not all(model.get(part) for part in ServiceRef.model_fields):
        return None
    base = job_base_name(run["metadata"]["name"], run["metadata"]["uid"])
    if (status.get("jobStatus") or {}).get("name") == job_name(base, (status.get("endedLaunches") or 0) + 1):
        return None  # the launch has a Job already, whose Pod waits for the model itself; an earlier launch may have had one
    return ServiceRef(kind=model["kind"], namespace=model["namespace"], name=model["name"])


def digest_model(item: Object, *, now: datetime) -> Object:
    """What the cache keeps of an object: its identity, the message of a launch that would wait for it, and when that ends
    although the object does not change.
    """
    metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    if why := unreadable_because(item):
        service = ServiceRef(kind=item["kind"], namespace=metadata["namespace"], name=metadata["name"])
        answer: Answer = NotYet(too_large(str(service), why))
    else:
        answer = resolve(item, Wanted(), now=now)
    if not isinstance(answer, NotYet):
        return {"metadata": metadata, WAIT: None, _UNTIL: None}
    return {"metadata": metadata, WAIT: one_line(answer.message, limit=MESSAGE_LIMIT), _UNTIL: answer.until}


def seconds_left(digest: Object, *, now: datetime) -> float | None:
    """For how long the message in a digest is true if the object does not change; None: for ever."""
    until: datetime | None = digest[_UNTIL]
    return (until - now).total_seconds() if until is not None else None


class ModelWaits:
    """The waiting runs by object."""

    def __init__(self) -> None:
        self._services: dict[RunKey, ServiceRef] = {}
        self._runs: dict[ServiceRef, set[RunKey]] = {}

    def observe(self, key: RunKey, run: Object | None) -> tuple[ServiceRef | None, ServiceRef | None]:
        """A run has changed or is gone; returns the objects that it waited for before, and waits for now."""
        before, after = self._services.pop(key, None), awaited_service(run) if run is not None else None
        if before is not None and before != after:
            self._runs[before].discard(key)
            if not self._runs[before]:
                del self._runs[before]
        if after is not None:
            self._services[key] = after
            self._runs.setdefault(after, set()).add(key)
        return before, after

    def runs_of(self, service: ServiceRef) -> list[RunKey]:
        """The runs that wait for the object."""
        return sorted(self._runs.get(service, ()))

    def services(self) -> list[ServiceRef]:
        """The objects that runs wait for."""
        return list(self._runs)

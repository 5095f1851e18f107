"""Which runs wait for which object of KServe, and whether a change of the object is reason to look again. Pure.

A waiting run holds nothing but its entry here. Its status says what the launch saw of the object; as soon as the object says
something else, the run's workflow is signalled. So it does not matter which of the two was seen first.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from inferrun.kserve import NotYet, Wanted, resolve
from inferrun.kube.objects import Object
from inferrun.reasons import Phase, Reason
from inferrun.resources.scalars import MESSAGE_LIMIT
from inferrun.text import one_line

MODEL_WAITS: Final = (Reason.MODEL_NOT_READY, Reason.KSERVE_NOT_INSTALLED)
"""The reasons of a run that a change of its model may unblock."""

RunKey = tuple[str, str]
"""Namespace and name of a run."""

_WAIT: Final = "wait"


class Service(NamedTuple):
    """The identity of an object that serves a model."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def awaited_service(run: Object) -> Service | None:
    """The object whose state the run waits for before its Job is created; None if it waits for nothing of that kind."""
    status = run.get("status") or {}
    model = status.get("model") or {}
    is_waiting = status.get("phase") == Phase.PENDING and status.get("reason") in MODEL_WAITS
    if not is_waiting or not all(model.get(part) for part in Service._fields):
        return None
    return Service(model["kind"], model["namespace"], model["name"])


def digest_model(item: Object, *, now: datetime) -> Object:
    """What the cache keeps of an object: its identity, and the message of a launch that would wait for it."""
    metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    answer = resolve(item, Wanted(), now=now)
    wait = one_line(answer.message, limit=MESSAGE_LIMIT) if isinstance(answer, NotYet) else None
    return {"metadata": metadata, _WAIT: wait}


def wait_of(digest: Object) -> str | None:
    """The message in a digest; None if a launch would not wait, or fail, because of the object."""
    found: str | None = digest[_WAIT]
    return found


class ModelWaits:
    """The waiting runs by object."""

    def __init__(self) -> None:
        self._services: dict[RunKey, Service] = {}
        self._runs: dict[Service, set[RunKey]] = {}

    def observe(self, key: RunKey, run: Object | None) -> Service | None:
        """A run has changed or is gone; returns the object that it waits for now."""
        service = awaited_service(run) if run is not None else None
        before = self._services.get(key)
        if before is not None and before != service:
            self._forget(key, before)
        if service is not None:
            self._services[key] = service
            self._runs.setdefault(service, set()).add(key)
        return service

    def service_of(self, key: RunKey) -> Service | None:
        """The object that the run waits for, as far as it was observed."""
        return self._services.get(key)

    def is_awaited(self, service: Service) -> bool:
        """Whether any run waits for the object."""
        return service in self._runs

    def keys_of(self, service: Service) -> frozenset[RunKey] | set[RunKey]:
        """The same, in no order."""
        return self._runs.get(service, frozenset())

    def runs_of(self, service: Service) -> list[RunKey]:
        """The runs that wait for the object."""
        return sorted(self._runs.get(service, ()))

    def services(self) -> list[Service]:
        """The objects that runs wait for."""
        return list(self._runs)

    def kinds(self) -> frozenset[str]:
        """The kinds of these objects."""
        return frozenset(service.kind for service in self._runs)

    def _forget(self, key: RunKey, service: Service) -> None:
        del self._services[key]
        runs = self._runs[service]
        runs.discard(key)
        if not runs:
            del self._runs[service]


def outdated_runs(runs: Iterable[tuple[RunKey, Object | None]], *, wait: str | None) -> list[RunKey]:
    """The runs whose status says something else than `wait`, which a launch would write now."""
    return [key for key, run in runs if run is not None and (wait is None or _message_of(run) != wait)]


def _message_of(run: Object) -> str:
    return str((run.get("status") or {}).get("message") or "")

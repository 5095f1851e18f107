"""Runs that have not been launched yet, as the worker's watch delivered them: their launch need not read them.

They were created a moment ago, or wait for something before their Job is created. They are kept as JSON and within a limit, so
that ten thousand runs that wait take little memory. What is kept may be out of date; the launch's status write is conditional on
the version that it has read.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import orjson

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef

BYTES_LIMIT: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run, and the time of the event loop's clock at which it was first seen; None for one whose launch has been blocked."""

    run: InferenceRun
    seen_at: float | None


@dataclass(frozen=True, slots=True)
class _Kept:
    raw: bytes
    seen_at: float


class NewRuns:
    """The newest runs by UID; beyond the limit, the oldest ones are forgotten."""

    def __init__(self, *, bytes_limit: int = BYTES_LIMIT) -> None:
        self._bytes_limit = bytes_limit
        self._bytes = 0
        self._runs: OrderedDict[str, _Kept] = OrderedDict()

    def observe(self, run: Object, *, now: float) -> None:
        """A run as the watch delivers it, whole; it is kept if it has not been launched, and forgotten otherwise."""
        known = self.forget(run["metadata"]["uid"])
        if not is_new(run):
            return
        kept = _Kept(orjson.dumps(_without_managers(run)), known.seen_at if known is not None else now)
        self._runs[run["metadata"]["uid"]] = kept
        self._bytes += len(kept.raw)
        while self._bytes > self._bytes_limit:
            self.forget(next(iter(self._runs)))

    def forget(self, uid: str) -> _Kept | None:
        """The run is gone; returns what was kept of it."""
        kept = self._runs.pop(uid, None)
        self._bytes -= len(kept.raw) if kept is not None else 0
        return kept

    def find(self, run: RunRef) -> NewRun | None:
        """The run, if it is kept."""
        kept = self._runs.get(run.uid)
        if kept is None:
            return None
        found = parse_run(orjson.loads(kept.raw))
        return NewRun(found, kept.seen_at if found.status.reason in (None, Reason.ACCEPTED) else None)


def _without_managers(run: Object) -> Object:
    """Without the managed fields, which are half of it and which nobody reads."""
    metadata = {key: value for key, value in run["metadata"].items() if key != "managedFields"}
    return {**run, "metadata": metadata}


def is_new(run: Object) -> bool:
    """Whether the run has had no Job yet, and nothing but a launch is to be done about it. Pure."""
    metadata, status = run["metadata"], run.get("status") or {}
    if metadata.get("deletionTimestamp") or run["spec"].get("schedule") is not None:
        return False
    if (metadata.get("annotations") or {}).get(wellknown.ANNOTATION_CANCEL_REQUESTED):
        return False
    if status.get("phase") not in (None, Phase.PENDING):
        return False
    return not any(status.get(field) for field in ("contract", "jobStatus", "attempts"))

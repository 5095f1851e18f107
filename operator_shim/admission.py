"""Decides when the run of a namespace may be started, so that a crowd in one namespace delays no other namespace. Pure.

Two limits apply to each namespace. At most `pace` of its runs are being launched at a time: started, or signalled to look again,
and not heard of since. A worker executes the steps of all namespaces, so what is handed to it is what others wait behind.
And at most `limit` of its runs, a setting, are active: started and not finished.

The state follows from the watched runs. It is lost with the process, and the watch restores it: at worst, some more runs are
started than the limit allows.
"""

from collections.abc import Callable
from enum import StrEnum
from itertools import islice
from typing import Final

from inferrun.kube.informer import Key
from inferrun.kube.objects import Object
from inferrun.reasons import Phase
from operator_shim.decisions import OWN_REASONS

PACE: Final = 4
"""Runs of a namespace that are launched at a time. They share the worker with what others wait for, which therefore takes up to
five times as long. More would hardly launch them faster, because launches are bound by CPU; two take twice as long (measured)."""

PATIENCE_SECONDS: Final = 2.0
"""After this time a run counts as launched, whatever is known of it: no worker may be running, or nothing has changed."""


class Admitted(StrEnum):
    """Whether a run may be started."""

    NOW = "Now"
    SOON = "Soon"
    """Once a launch of its namespace has come further."""
    TOO_MANY = "TooMany"
    """Once an active run of its namespace has ended."""


class Admission:
    """`resume` is called with the key of a run that was not admitted and should ask again."""

    def __init__(self, *, limit: Callable[[], int], resume: Callable[[Key], None], pace: int = PACE) -> None:
        self._limit = limit
        self._resume = resume
        self._pace = pace
        self._namespaces: dict[str, _Namespace] = {}

    def observe(self, key: Key, item: Object) -> None:
        """The run of that key has changed."""
        uid, status = item["metadata"]["uid"], item.get("status") or {}
        if status.get("phase") in (Phase.SUCCEEDED, Phase.FAILED):
            self.forget(key, uid)
        elif is_started(item):
            place = self._place(key)
            place.active.add(uid)
            place.leave(key)  # another shim may have started it
            if place.launching.get(uid) != _what_is_known(item):
                self.finish_launch(key, uid)

    def forget(self, key: Key, uid: str) -> None:
        """The run has ended or is gone."""
        place = self._place(key)
        place.active.discard(uid)
        place.launching.pop(uid, None)
        place.leave(key)
        self._resume_waiting(key[0])

    def ask(self, key: Key, item: Object) -> Admitted:
        """Whether the run may be launched now. If so, it counts as being launched until more is known of it."""
        uid, place = item["metadata"]["uid"], self._place(key)
        if uid in place.launching:
            return Admitted.NOW
        if not is_started(item) and self._room(place) <= 0:
            place.too_many.setdefault(key)
            return Admitted.TOO_MANY
        place.too_many.pop(key, None)
        if len(place.launching) >= self._pace:
            place.soon.setdefault(key)
            return Admitted.SOON
        place.soon.pop(key, None)
        place.launching[uid] = _what_is_known(item)
        return Admitted.NOW

    def has_too_many(self, key: Key) -> bool:
        """Whether the run of that key was not admitted because its namespace has as many active runs as allowed."""
        place = self._namespaces.get(key[0])
        return place is not None and key in place.too_many

    def is_next(self, key: Key) -> bool:
        """Whether the run of that key waits for the launches before it."""
        place = self._namespaces.get(key[0])
        return place is not None and key in place.soon

    def _room(self, place: "_Namespace") -> int:
        """How many more runs may be active."""
        limit = self._limit()
        return limit - len(place.active | place.launching.keys()) if limit else self._pace

    def finish_launch(self, key: Key, uid: str) -> None:
        """The run counts as launched. Others are resumed in any case: one that was resumed may have been launched since."""
        place = self._place(key)
        if place.launching.pop(uid, None) is not None:
            place.active.add(uid)
        self._resume_waiting(key[0])

    def _place(self, key: Key) -> "_Namespace":
        return self._namespaces.setdefault(key[0], _Namespace())

    def _resume_waiting(self, namespace: str) -> None:
        """Let as many runs ask again as there is room for, those that asked first."""
        place = self._namespaces[namespace]
        slots = self._pace - len(place.launching)
        resumed = place.take(place.soon, slots)
        resumed += place.take(place.too_many, min(slots - len(resumed), self._room(place)))
        if place.is_empty and not resumed:
            del self._namespaces[namespace]
        for key in resumed:
            self._resume(key)


class _Namespace:
    """The runs of one namespace by UID, and the keys of those that wait. Of a launch, what was known when it began."""

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.launching: dict[str, tuple[object, ...]] = {}
        self.soon: dict[Key, None] = {}
        self.too_many: dict[Key, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.active or self.launching or self.soon or self.too_many)

    def leave(self, key: Key) -> None:
        """The run of that key does not wait any more."""
        self.soon.pop(key, None)
        self.too_many.pop(key, None)

    @staticmethod
    def take(waiting: dict[Key, None], count: int) -> list[Key]:
        """Remove and return those that asked first, at most `count`."""
        taken = list(islice(waiting, max(0, count)))
        for key in taken:
            del waiting[key]
        return taken


def is_started(item: Object) -> bool:
    """Whether the run's workflow has been heard of."""
    status = item.get("status") or {}
    return bool(status.get("phase")) and status.get("reason") not in OWN_REASONS


def _what_is_known(item: Object) -> tuple[object, ...]:
    """What a launch changes."""
    status = item.get("status") or {}
    return status.get("reason"), status.get("message"), (status.get("jobStatus") or {}).get("uid")

"""For how long a launch of several shards has run: from the first of its Pods that took turns, to the end of the last. Pure.

The run's clock counts while at least one Pod runs. A Pod that was killed and its replacement do not start it anew, as long as
another one ran in between; only a time without any Pod does, and what came before it has been counted when it began.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from activities.objects.object_metadata import name_of, uid_of
from activities.watching import pod_state
from inferrun.kube.objects import Object
from inferrun.timestamps import parse, rfc3339

OVERLAP = timedelta(seconds=2)
"""By how much two Pods must have run at the same time to count as taking turns. Times are in whole seconds, and a break that was
counted must not be forgotten: its time would count twice.
"""


@dataclass(frozen=True)
class Period:
    """A time in which a launch ran without a break; `ended_at` is None and `last_pod_uid` empty if it still runs."""

    started_at: str
    ended_at: str | None = None
    last_pod_uid: str = ""


@dataclass(frozen=True)
class _Life:
    pod_uid: str
    pod_name: str
    started: datetime
    ended: datetime | None

    @classmethod
    def of(cls, pod: Object) -> Self | None:
        """Of a container whose times are known."""
        reported, end = pod_state.started_at(pod), pod_state.container_end(pod)
        if reported is None:
            return None
        started = parse(reported)
        if end is None:
            silent = pod_state.silent_since(pod)
            return cls(uid_of(pod), name_of(pod), started, max(started, parse(silent)) if silent else None)
        if end.started_at is None or end.finished_at is None:
            return None
        lasted = max(timedelta(), parse(end.finished_at) - parse(end.started_at))
        return cls(uid_of(pod), name_of(pod), started, started + lasted)


def period_of(pods: Iterable[Object], *, ended_pods: Iterable[Object] = (), until: str = "") -> Period | None:
    """The latest period; the one that ended with the Pod named `until`, if its container ended. None if no Pod has run."""
    # Of a Pod that is only remembered, the life counts if its end was seen.
    ended = {uid_of(pod): pod for pod in ended_pods if pod_state.container_end(pod) is not None}
    known = ended | {uid_of(pod): pod for pod in pods}
    lives = [life for pod in known.values() if (life := _Life.of(pod)) is not None]
    named = [life for life in lives if life.pod_name == until and life.ended is not None]
    running = [life for life in lives if life.ended is None and not named]
    if running:
        return Period(_begin_of(min(life.started for life in running), lives))
    if not lives:
        return None
    last = max(named or lives, key=lambda life: (life.ended or life.started, life.pod_uid))
    return Period(_begin_of(last.started, lives), rfc3339(last.ended or last.started), last.pod_uid)


def _begin_of(begin: datetime, lives: Iterable[_Life]) -> str:
    """When the first of the Pods began that took turns until one that started at `begin`."""
    while earlier := [
        life.started for life in lives if life.started < begin and (life.ended is None or life.ended - begin >= OVERLAP)
    ]:
        begin = min(earlier)
    return rfc3339(begin)

"""Arithmetic of a run's two clocks: timeoutSeconds counts while its container runs, pendingTimeoutSeconds while it waits.

Pure: the current time is a parameter. A limit of 0 means no limit, and so does a field that is not set.
"""

from datetime import datetime
from zlib import crc32

from inferrun.resources import InferenceRunSpec
from inferrun.timestamps import parse

CLOCK_TOLERANCE = 2.0
"""A run's time counts as used up if no more than this many seconds are left. The kubelet reports whole seconds and a
runner rounds its deadline down, so a launch that used all of its time may appear to have a little left. The verdict on an
exit at the deadline and the decision about another launch share this value: with two different ones, launches of a second
could follow each other."""


MAX_SPREAD_SECONDS = 3.0
SPREAD_SHARE = 0.02
"""The clocks of runs expire up to so much later than their limits say; short limits are kept more precisely."""


def seconds_between(start: str, end: str) -> float:
    """Seconds from one timestamp to another, at least 0."""
    return max(0.0, (parse(end) - parse(start)).total_seconds())


def running_seconds_left(limit: int, *, used: float, started_at: str | None, now: datetime) -> float | None:
    """Seconds left on the run's clock, None without a limit; `started_at` is the start of the running container."""
    if not limit:
        return None
    running = (now - parse(started_at)).total_seconds() if started_at else 0.0
    return limit - used - running


def pending_seconds_left(limit: int, *, since: str, now: datetime) -> float | None:
    """Seconds for which the run may go on waiting, None without a limit."""
    return limit - (now - parse(since)).total_seconds() if limit else None


def spread_seconds(limit: int, *, uid: str) -> float:
    """By how much later than its limit says a run's clock expires: always the same for a run, and different for different runs.

    Of hundreds of runs that reach a limit at the same moment, not all are then dealt with at that moment.
    """
    return min(MAX_SPREAD_SECONDS, limit * SPREAD_SHARE) * crc32(uid.encode()) / 2**32


def is_expired(seconds_left: float | None) -> bool:
    """Whether a run's time is used up."""
    return seconds_left is not None and seconds_left <= CLOCK_TOLERANCE


def timeout_of(spec: InferenceRunSpec) -> int:
    """The limit that timeoutSeconds sets, 0 for none.

    The one rule for this field: the spec's current value applies, and without a value there is no limit. Each launch
    reads it, and an edit while a launch is in progress is signalled to the workflow, also when the field is removed.
    """
    return spec.timeout_seconds or 0

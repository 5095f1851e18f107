"""Arithmetic of a run's two clocks: timeoutSeconds counts while its container runs,
pendingTimeoutSeconds while it waits.

Pure: the current time is a parameter. A limit of 0 means no limit, and so does a field that is not
set.
"""

from inferrun.resources import InferenceRunSpec
from inferrun.timestamps import parse

CLOCK_TOLERANCE = 2.0
"""A run's time counts as used up if no more than this many seconds are left. The kubelet reports
whole seconds and a runner rounds its deadline down, so a launch that used all of its time may
appear to have a little left. The verdict on an exit at the deadline and the decision about another
launch share this value: with two different ones, launches of a second could follow each other."""


def seconds_between(start: str, end: str) -> float:
    """Seconds from one timestamp to another, at least 0."""
    return max(0.0, (parse(end) - parse(start)).total_seconds())


def is_expired(seconds_left: float | None) -> bool:
    return seconds_left is not None and seconds_left <= CLOCK_TOLERANCE


def timeout_of(spec: InferenceRunSpec) -> int:
    """The limit that timeoutSeconds sets, 0 for none.

    The one rule for this field: the spec's current value applies, and without a value there is no
    limit. Each launch reads it, and an edit while a launch is in progress is signalled to the
    workflow, also when the field is removed.
    """
    return spec.timeout_seconds or 0

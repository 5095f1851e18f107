"""Spans of runs in OpenTelemetry: one trace per run, whose id is the run's UID. Pure.

The ids of the spans that others refer to are derived from the UID as well. Nothing about traces has
to pass through Temporal or the cluster: any process adds to a run's trace at any time, after a
restart, a takeover and the loss of Temporal's history.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from inferrun.run_ref import RunRef

Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that was done for a run. It is below the run's own span unless it has another
    parent."""

    run: RunRef
    name: str
    start: datetime
    end: datetime
    id: int = 0
    """If others refer to it; 0: any."""

    parent: int | None = None
    """The id of another span; 0: it has none. None: the run's own span."""

    attributes: Mapping[str, Value | None] = field(default_factory=dict)
    error: str = ""
    """Why it failed; empty if it did not."""


def trace_id(uid: str) -> int:
    """The id of a run's trace: its UID, which is 32 hexadecimal digits without its dashes."""
    digits = uid.replace("-", "")
    number = int(digits, 16) if re.fullmatch("[0-9a-f]{32}", digits) else 0
    return number or int.from_bytes(hashlib.sha256(uid.encode()).digest()[:16])


def run_span_id(uid: str) -> int:
    """The id of the span from the creation of a run to its end, the root of the trace."""
    return _derived(uid, "run")


def launch_span_id(uid: str, launch: int) -> int:
    """The id of the span of a launch, below which its Pods write their own."""
    return _derived(uid, f"launch/{launch}")


def start_span_id(uid: str) -> int:
    """The id of the span until a workflow was started for the run: several shims may do that at the
    same time."""
    return _derived(uid, "start")


def share(uid: str) -> float:
    """The place of a run among all runs, from 0 to 1."""
    # Not by the digits of the UID: some of them are the same in all UIDs.
    return _derived(uid, "share") / 2**64


def _derived(uid: str, what: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{uid}/{what}".encode()).digest()[:8]) or 1

"""Settings of the process that favor throughput: nobody waits for a single request of a batch."""

import gc
import os
from contextlib import suppress
from typing import Final

_COLLECTED_AFTER: Final = 20_000
"""New objects after which the youngest are examined."""


def collect_rarely() -> None:
    """Examine objects for cycles less often than Python does, and not what is there already: what
    was imported stays, and the hundred objects of a request end with it.

    As it is, that takes a sixth of the time of a small request (measured).
    """
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER)


def use_batch_scheduling() -> None:
    """Have Linux schedule this thread, and those that it starts, as batch work: a thread that wakes
    up does not preempt another.

    Otherwise each response wakes the thread of the HTTP client, which preempts Python's only to
    wait for the interpreter's lock. That takes an eighth of the CPU time of a small request on one
    core (measured). A sandbox may refuse it.
    """
    if hasattr(os, "SCHED_BATCH"):  # Linux
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

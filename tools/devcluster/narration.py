"""Tells the person at the terminal what happens, how far it is and how long it took.

Long steps report their progress at most every ten seconds, so that a log of CI stays readable.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

REPORT_EVERY_SECONDS = 10.0
_print_lock = threading.Lock()


def say(text: str) -> None:
    """Print one line, whole, also when several threads speak."""
    with _print_lock:
        print(text, flush=True)


def complain(text: str) -> None:
    with _print_lock:
        print(text, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A duration as people read it: `0.4 s`, `12 s`, `3 min 20 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


@dataclass
class Step:
    """One named piece of work; `progress` may be called as often as one likes."""

    name: str
    started: float = field(default_factory=time.monotonic)
    reported: float = field(default_factory=time.monotonic)

    def progress(self, how_far: str) -> None:
        now = time.monotonic()
        if now - self.reported < REPORT_EVERY_SECONDS:
            return
        self.reported = now
        say(f"    {self.name}: {how_far} ({duration(now - self.started)} so far)")


@contextmanager
def step(name: str, *, announce: bool = False) -> Iterator[Step]:
    """Time a piece of work; `announce` says so at its start, for work that takes longer than a breath."""
    current = Step(name)
    if announce:
        say(f"  {name} ...")
    yield current
    say(f"  {name}: {duration(time.monotonic() - current.started)}")

"""Console output: permanent lines, and one progress line for everything that is currently running.

On a terminal the progress line is rewritten in place. Elsewhere, as in CI logs, it is printed at
most every 30 seconds. Steps that finish quickly leave no permanent line.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from .progress import Estimate, format_left

REDRAW_SECONDS = 0.5
LOG_EVERY_SECONDS = 30.0
REPORT_STEPS_FROM_SECONDS = 10.0
"""Steps that took at least this long get a line with their duration."""

CLEAR_LINE = "\r\x1b[2K"


def duration(seconds: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `3 min 20 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


@dataclass
class Step:
    """A named piece of work in progress; `update` may be called as often as desired."""

    name: str
    console: "Console"
    started: float
    detail: str = ""

    def update(self, detail: str, *, fraction: float = 0.0) -> None:
        self.detail = detail
        self.console.record(self.name, fraction=fraction)

    def text(self) -> str:
        return f"{self.name} ({self.detail})" if self.detail else self.name


@dataclass
class Console:
    """Writes to one stream; may be used from several threads."""

    stream: TextIO
    is_terminal: bool
    clock: Callable[[], float] = time.monotonic
    width: Callable[[], int] = lambda: shutil.get_terminal_size().columns
    ticks: bool = True
    """Whether a thread calls `tick` while steps are running."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _steps: list[Step] = field(default_factory=list)
    _estimate: Estimate | None = None
    _estimate_started: float = 0.0
    _last_line: float = 0.0
    _ticker: threading.Thread | None = None

    def info(self, text: str) -> None:
        """Print a permanent line."""
        with self._lock:
            self._write(f"{text}\n")
            self._last_line = self.clock()
            self._draw()

    @contextmanager
    def plan(self, costs: Mapping[str, float]) -> Iterator[None]:
        """Show the estimated time left for these steps (expected core-seconds by step name) while
        the block runs."""
        with self._lock:
            self._estimate = Estimate(costs, cores=os.cpu_count() or 1)
            self._estimate_started = self.clock()
        try:
            yield
        finally:
            with self._lock:
                self._estimate = None

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Show a step while it runs; a long one leaves a line with its duration."""
        current = Step(name, self, started=self.clock())
        with self._lock:
            if not self._steps:
                self._last_line = self.clock()
            self._steps.append(current)
            self._start_ticker()
        try:
            yield current
            self.record(name, fraction=1.0)
        finally:
            with self._lock:
                self._steps.remove(current)
                self._draw()
        took = self.clock() - current.started
        if took >= REPORT_STEPS_FROM_SECONDS:
            self.info(f"  {name}: {duration(took)}")

    def record(self, step: str, *, fraction: float) -> None:
        with self._lock:
            if self._estimate is not None:
                self._estimate.update(step, fraction=fraction)

    def tick(self) -> None:
        """Redraw the progress line, or print it if the last line in the log is old enough."""
        with self._lock:
            if self.is_terminal:
                self._draw()
            elif self._steps and self.clock() - self._last_line >= LOG_EVERY_SECONDS:
                self.info(f"  {self._progress_line()}")

    def _draw(self) -> None:
        if self.is_terminal:
            line = f"  {self._progress_line()}"[: self.width() - 1] if self._steps else ""
            self._write(line)

    def _progress_line(self) -> str:
        running = ", ".join(step.text() for step in self._steps)
        if self._estimate is None:
            return f"{running}: {duration(self.clock() - self._steps[0].started)} so far"
        elapsed = self.clock() - self._estimate_started
        left = format_left(self._estimate.seconds_left(elapsed=elapsed))
        return f"{left} ({duration(elapsed)} elapsed): {running}"

    def _write(self, text: str) -> None:
        self.stream.write(f"{CLEAR_LINE}{text}" if self.is_terminal else text)
        self.stream.flush()

    def _start_ticker(self) -> None:
        if self.ticks and self._ticker is None:
            self._ticker = threading.Thread(target=self._tick_while_busy, daemon=True)
            self._ticker.start()

    def _tick_while_busy(self) -> None:
        while True:
            time.sleep(REDRAW_SECONDS)
            with self._lock:
                if not self._steps:
                    self._ticker = None
                    return
                self.tick()


CONSOLE = Console(sys.stdout, is_terminal=sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
"""Module-level because standard output is one per process: a progress line works only if all output
goes through it."""

info = CONSOLE.info
step = CONSOLE.step
plan = CONSOLE.plan


def error(text: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

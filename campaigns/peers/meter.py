"""`python meter.py <report> <program> …`: runs a program and reports what all its processes used.

Processes that outlive their parent become children of this one, which waits for them or ends them
once the program has ended, so that none is forgotten. CPU time is the larger of two figures: that
of all processes that were waited for, and the sum of what was seen of each while it lived, because
a parent that ignores its children's ends hides their time. Peak memory is the largest sum of
proportional shares (PSS) seen, or the largest process, if that is more.

SIGTERM ends everything. Assumes Linux. A program of its own that imports little: a child inherits the peak of its parent.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PERIOD = 0.25
LINGERING = 5.0
"""Seconds that processes may take to end after the program."""

_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Run the program, and return its exit code."""
    report, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    seen = Seen()
    try:
        program = subprocess.Popen(command)
        while program.poll() is None:
            seen.look()
            with suppress(subprocess.TimeoutExpired):
                program.wait(PERIOD)
        wall = time.monotonic() - started
        _wait_for_others(seen, seconds=LINGERING)
    except KeyboardInterrupt:
        _wait_for_others(seen, seconds=0)
        return 128 + signal.SIGTERM
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "cpu_seconds": max(used.ru_utime + used.ru_stime, seen.cpu_seconds),
        "wall_seconds": wall,
        "peak_memory_mib": max(used.ru_maxrss / 1024, seen.peak_memory),
        "processes": len(seen.ticks),
    }
    Path(report).write_text(json.dumps(found))
    return program.returncode


class Seen:
    """What was seen of the processes below this one."""

    def __init__(self) -> None:
        self.ticks = dict[tuple[int, str], int]()
        self.peak_memory = 0.0

    @property
    def cpu_seconds(self) -> float:
        """Of all processes, the last that was seen."""
        return sum(self.ticks.values()) / _TICKS

    def look(self) -> None:
        """Note CPU time and memory of all processes that live now."""
        memory = 0
        for pid in descendants(os.getpid()):
            with suppress(OSError, ValueError, IndexError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self.ticks[pid, fields[19]] = int(fields[11]) + int(fields[12])
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        memory += int(line.split()[1])
        self.peak_memory = max(self.peak_memory, memory / 1024)


def descendants(pid: int) -> list[int]:
    """The processes below a process."""
    found = list[int]()
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in (thread / "children").read_text().split():
                    found += [int(child), *descendants(int(child))]
    return found


def _wait_for_others(seen: Seen, *, seconds: float) -> None:
    """Wait for what the program has left, and end it if that takes longer."""
    deadline = time.monotonic() + seconds
    while left := descendants(os.getpid()):
        seen.look()
        if time.monotonic() > deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(PERIOD)


if __name__ == "__main__":
    sys.exit(main())

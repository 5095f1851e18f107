"""Measures the CPU time and memory of this process, for the last line of its log. Users set `resources` by these figures."""

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resource_usage() -> dict[str, float]:
    """Return `cpu_seconds` and, if the kernel reports it, `peak_memory_mib`."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_seconds": round(used.ru_utime + used.ru_stime, 2), **_peak_memory()}


def _peak_memory() -> dict[str, float]:
    # Not ru_maxrss: its initial value is the memory of the parent process.
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    kibs = [float(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return {"peak_memory_mib": round(kibs[0] / 1024, 1)} if kibs else {}

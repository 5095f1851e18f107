"""What this process has used of its machine, for the last line of its log: the figures that `resources` are set by."""

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")


def spent() -> dict[str, float]:
    """Peak memory in MiB and CPU seconds; memory is left out where the kernel does not tell it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_seconds": round(used.ru_utime + used.ru_stime, 2), **_peak_memory()}


def _peak_memory() -> dict[str, float]:
    # Not ru_maxrss: it starts with the memory of whoever started this process.
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    kibs = [float(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return {"peak_memory_mib": round(kibs[0] / 1024, 1)} if kibs else {}

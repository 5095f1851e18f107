"""The machine on which a benchmark ran."""

import os
import platform
from pathlib import Path


def machine() -> str:
    """One line with processor, cores, memory, operating system and load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"machine: {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}; load average {load}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()

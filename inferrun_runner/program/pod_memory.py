"""The memory that the Pod's container may use, as its cgroup says."""

from pathlib import Path
from typing import Final

_FILES: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Those of cgroup v2 and v1."""

_UNLIMITED: Final = 1 << 60
"""Version 1 has a huge number for no limit."""


def memory_limit(files: tuple[Path, ...] = _FILES) -> int:
    """Return the limit in bytes; 0 if there is none, or if it is not known."""
    for file in files:
        try:
            found = int(file.read_text(encoding="ascii"))
        except (OSError, ValueError):  # version 2 has the word max for no limit
            continue
        return found if found < _UNLIMITED else 0
    return 0

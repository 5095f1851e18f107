"""Records which checkout owns the machine's only cluster, and serialises the commands that change
it."""

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .console import info
from .errors import DevClusterError
from .layout import Layout

USE_EXISTING = "use an existing cluster: INFERRUN_CONTEXT=<kubectl context> make demo"


def require_root(command: str) -> None:
    if platform.system() != "Linux":
        raise DevClusterError(f"{command} requires Linux", fix=USE_EXISTING)
    if os.geteuid() != 0:
        raise DevClusterError(
            f"{command} requires root, because it creates containers, a bridge and mounts",
            fix=f"sudo {command}, or {USE_EXISTING}",
        )


@contextmanager
def lock(layout: Layout) -> Iterator[None]:
    """Hold the lock for the duration of the block. The kernel releases it if the process is
    killed."""
    layout.state.mkdir(parents=True, exist_ok=True)
    with (layout.state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            info("  waiting for another command that is changing the cluster")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def owner(layout: Layout) -> Path | None:
    """The checkout whose `make cluster` created the cluster."""
    try:
        return Path(json.loads(layout.owner.read_text())["checkout"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def claim(layout: Layout) -> None:
    partial = layout.owner.with_suffix(".partial")
    partial.write_text(json.dumps({"checkout": str(layout.checkout)}))
    partial.replace(layout.owner)

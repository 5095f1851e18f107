"""There is one cluster on a machine; this says whose it is, and lets one command at a time work on it."""

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .layout import Layout
from .narration import say
from .problem import Problem

NAME_YOURS = "name a cluster of your own with INFERRUN_CONTEXT and its Temporal with TEMPORAL_ADDRESS"


def need_root(*, what: str) -> None:
    if platform.system() != "Linux":
        raise Problem(f"{what} needs Linux", cure=NAME_YOURS)
    if os.geteuid() != 0:
        raise Problem(
            f"{what} needs root: it makes containers, a bridge and mounts",
            cure=f"sudo {what}, or {NAME_YOURS}",
        )


@contextmanager
def lock(layout: Layout) -> Iterator[None]:
    """Held by the kernel for as long as this process lives, so that a killed command leaves no lock behind."""
    layout.state.mkdir(parents=True, exist_ok=True)
    with (layout.state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  another command works on the cluster; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def owner(layout: Layout) -> Path | None:
    """The checkout whose `make cluster` made the cluster."""
    try:
        return Path(json.loads(layout.owner.read_text())["checkout"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def claim(layout: Layout) -> None:
    partial = layout.owner.with_suffix(".partial")
    partial.write_text(json.dumps({"checkout": str(layout.checkout)}))
    partial.replace(layout.owner)

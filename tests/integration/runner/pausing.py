"""Pauses a runner's process at a step of its commit, by wrapping functions of `os` before the
program starts.

The wrapper is a `sitecustomize` module on the path of the process. It announces the pause with a
marker file and then blocks the thread, as a slow or hanging volume does.
"""

from pathlib import Path

STEPS = ("draft", "before_link", "after_link", "folder", "cleanup")
"""The steps of a commit: writing the draft, publishing its name, making the name durable, deleting
all other files."""

_MODULE = """
import os, pathlib, time

STEP, MARKER, SECONDS = os.environ["PAUSE_STEP"], pathlib.Path(os.environ["PAUSE_MARKER"]), float(os.environ["PAUSE_SECONDS"])
fsync, link, scandir = os.fsync, os.link, os.scandir
linked = False


def pause(step):
    if step == STEP and not MARKER.exists():
        MARKER.touch()
        time.sleep(SECONDS)


def paused_fsync(handle):
    name = os.readlink(f"/proc/self/fd/{handle}")
    if ".manifest.json." in name:
        pause("draft")
    elif linked:
        pause("folder")
    fsync(handle)


def paused_link(source, target):
    global linked
    is_manifest = str(target).endswith("manifest.json")
    if is_manifest:
        pause("before_link")
    link(source, target)
    linked = is_manifest
    if is_manifest:
        pause("after_link")


def paused_scandir(path):
    if linked:
        pause("cleanup")
    return scandir(path)


os.fsync, os.link, os.scandir = paused_fsync, paused_link, paused_scandir
"""


def pause_at(step: str, *, folder: Path, seconds: float) -> dict[str, str]:
    """Return the environment of a process that pauses once at the step; `folder`/paused exists
    while or after it does."""
    (folder / "sitecustomize.py").write_text(_MODULE)
    return {
        "PYTHONPATH": str(folder),
        "PAUSE_STEP": step,
        "PAUSE_MARKER": str(folder / "paused"),
        "PAUSE_SECONDS": str(seconds),
    }

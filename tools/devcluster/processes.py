"""Starts long-running programs, remembers exactly which processes it started, and ends only those.

A process is known by its id, its start time and the machine's boot: an id alone may have been given to somebody else
since. The record is written by the child itself before it becomes the program (`launch`), so that no interruption leaves a
process unrecorded.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .commands import last_lines
from .layout import CHECKOUT
from .narration import duration
from .problem import Problem

POLL_SECONDS = 0.1
START_SECONDS = 10
LARGEST_LOG = 10_000_000
LAUNCHER = "tools.devcluster.launch"


@dataclass(frozen=True)
class Identity:
    """What tells a process from any other that ever had its id."""

    pid: int
    start_time: int
    boot: str


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time_of(stat: str) -> int:
    """Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and parentheses, so count from its end."""
    return int(stat.rpartition(")")[2].split()[19])


def state_of(stat: str) -> str:
    return stat.rpartition(")")[2].split()[0]


def identity_of(pid: int) -> Identity | None:
    """None when no such process runs; a zombie does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if state_of(stat) == "Z":
        return None
    return Identity(pid=pid, start_time=start_time_of(stat), boot=boot_id())


@dataclass(frozen=True)
class Records:
    """The folder that holds one file per process that we started."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def running(self, name: str) -> Identity | None:
        """The process started under this name, if it still runs."""
        try:
            recorded = Identity(**self._read(name)["identity"])
        except (KeyError, TypeError):
            return None
        return recorded if identity_of(recorded.pid) == recorded else None

    def made_from(self, name: str) -> str:
        """The fingerprint of the settings that the process was started with."""
        return str(self._read(name).get("made_from", ""))

    def write_own(self, name: str, *, made_from: str) -> None:
        """Called in the new process, just before it becomes the program."""
        identity = identity_of(os.getpid())
        if identity is not None:
            partial = self.path(name).with_suffix(".partial")
            partial.write_text(json.dumps({"identity": asdict(identity), "made_from": made_from}))
            partial.replace(self.path(name))

    def _read(self, name: str) -> dict[str, Any]:  # Any: what a file holds that may have been cut short
        try:
            found = json.loads(self.path(name).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def forget(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)


def start(
    name: str,
    command: Sequence[str],
    *,
    records: Records,
    log: Path,
    extra_env: Mapping[str, str],
    made_from: str,
) -> None:
    """Start a program in a session of its own, so that Ctrl-C at the terminal does not reach it."""
    if shutil.which(command[0]) is None:
        raise Problem(f"{name} cannot start: {command[0]} is not there", cure="make cluster")
    records.folder.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    records.forget(name)
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_suffix(".log.old"))
    with log.open("ab") as output:
        launcher = subprocess.Popen(
            [sys.executable, "-m", LAUNCHER, str(records.folder), name, made_from, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=CHECKOUT,
            env={**os.environ, **extra_env},
        )
    wait_until(lambda: launcher.poll() is not None or records.path(name).exists(), seconds=START_SECONDS)


def stop(name: str, *, records: Records, sig: signal.Signals = signal.SIGTERM, seconds: float = 10) -> bool:
    """End the recorded process, by force when it does not go in time; False when it did not run."""
    identity = records.running(name)
    if identity is None:
        records.forget(name)
        return False
    send(identity, sig)
    if not wait_until(lambda: not is_running(identity), seconds=seconds):
        send(identity, signal.SIGKILL)
        wait_until(lambda: not is_running(identity), seconds=seconds)
    records.forget(name)
    return True


def is_running(identity: Identity) -> bool:
    _reap(identity.pid)
    return identity_of(identity.pid) == identity


def send(identity: Identity, sig: signal.Signals) -> None:
    """Signal a process through a handle of it, so that an id given away in between hits nobody."""
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if identity_of(identity.pid) == identity:
            signal.pidfd_send_signal(handle, sig)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _reap(pid: int) -> None:
    """A child of this very process stays a zombie until it is waited for."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def wait_until(question: Callable[[], bool], *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def wait_ready(name: str, question: Callable[[], bool], *, records: Records, log: Path, seconds: float) -> None:
    """Wait until a part answers; a part that died or hangs is a Problem with the end of its log."""
    deadline = time.monotonic() + seconds
    while not question():
        identity = records.running(name)
        if identity is None or not is_running(identity):
            raise Problem(f"{name} ended while it started", cure=f"read its log: {log}", detail=tail(log))
        if time.monotonic() > deadline:
            raise Problem(
                f"{name} did not answer within {duration(seconds)}",
                cure=f"read its log: {log}; make cluster-down and make cluster begin anew",
                detail=tail(log),
            )
        time.sleep(POLL_SECONDS)


def tail(log: Path, *, size: int = 16_384) -> str:
    """The last lines of a log, however large it is."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - size))
        return last_lines(file.read().decode(errors="replace"))

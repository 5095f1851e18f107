"""Starts long-running programs, records which processes it started, and stops only those.

A process is identified by its id, start time and the machine's boot id, because the kernel reuses
process ids. The child writes the record itself before it executes the program (`launch`), so an
interruption cannot leave an unrecorded process.
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
from .console import duration
from .errors import DevClusterError
from .layout import CHECKOUT

POLL_SECONDS = 0.1
START_SECONDS = 10
MAX_LOG_BYTES = 10_000_000
LAUNCHER = "tools.devcluster.launch"


@dataclass(frozen=True)
class Identity:
    """Distinguishes a process from all others that ever had its id."""

    pid: int
    start_time: int
    boot: str


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time_of(stat: str) -> int:
    """Field 22 of /proc/PID/stat. The name in field 2 may contain spaces and parentheses, so count
    from its end."""
    return int(stat.rpartition(")")[2].split()[19])


def state_of(stat: str) -> str:
    return stat.rpartition(")")[2].split()[0]


def identity_of(pid: int) -> Identity | None:
    """None if there is no such process or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if state_of(stat) == "Z":
        return None
    return Identity(pid=pid, start_time=start_time_of(stat), boot=boot_id())


@dataclass(frozen=True)
class ProcessRecords:
    """A directory with one file per process that was started."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def running(self, name: str) -> Identity | None:
        """The process started under this name, if it is still running."""
        try:
            recorded = Identity(**self._read(name)["identity"])
        except (KeyError, TypeError):
            return None
        return recorded if identity_of(recorded.pid) == recorded else None

    def fingerprint(self, name: str) -> str:
        """The fingerprint of the settings that the process was started with."""
        return str(self._read(name).get("fingerprint", ""))

    def write_own(self, name: str, *, fingerprint: str) -> None:
        """Record the calling process; it executes the program next."""
        identity = identity_of(os.getpid())
        if identity is not None:
            partial = self.path(name).with_suffix(".partial")
            partial.write_text(
                json.dumps({"identity": asdict(identity), "fingerprint": fingerprint})
            )
            partial.replace(self.path(name))

    def _read(self, name: str) -> dict[str, Any]:  # Any: JSON from a file that may be incomplete
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
    records: ProcessRecords,
    log: Path,
    extra_env: Mapping[str, str],
    fingerprint: str,
) -> None:
    """Start a program in its own session, so that it does not receive Ctrl-C from the terminal."""
    if shutil.which(command[0]) is None:
        raise DevClusterError(
            f"{name} cannot be started, because {command[0]} does not exist", fix="make cluster"
        )
    records.folder.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    records.forget(name)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.old"))
    with log.open("ab") as output:
        launcher = subprocess.Popen(
            [sys.executable, "-m", LAUNCHER, str(records.folder), name, fingerprint, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=CHECKOUT,
            env={**os.environ, **extra_env},
        )
    wait_until(
        lambda: launcher.poll() is not None or records.path(name).exists(), seconds=START_SECONDS
    )


def stop(
    name: str, *, records: ProcessRecords, sig: signal.Signals = signal.SIGTERM, seconds: float = 10
) -> bool:
    """Stop the recorded process, with SIGKILL if it does not exit in time; False if it was not
    running."""
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
    """Signal a process through a pidfd, so that a reused process id is never signalled."""
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
    """A child of this process remains a zombie until it is waited for."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def wait_until(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll until the condition holds; False if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def wait_ready(
    name: str, is_ready: Callable[[], bool], *, records: ProcessRecords, log: Path, seconds: float
) -> None:
    """Wait for a program's readiness probe. Raises DevClusterError, with the end of the log, if it
    exits or takes too long."""
    deadline = time.monotonic() + seconds
    while not is_ready():
        identity = records.running(name)
        if identity is None or not is_running(identity):
            raise DevClusterError(
                f"{name} exited during startup", fix=f"see its log: {log}", detail=tail(log)
            )
        if time.monotonic() > deadline:
            raise DevClusterError(
                f"{name} was not ready after {duration(seconds)}",
                fix=f"see its log: {log}; to start over: make cluster-down cluster",
                detail=tail(log),
            )
        time.sleep(POLL_SECONDS)


def tail(log: Path, *, size: int = 16_384) -> str:
    """The last lines of a log; reads at most `size` bytes."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - size))
        return last_lines(file.read().decode(errors="replace"))

"""Executes the containers of a Pod as processes, and reports how they ended as the kubelet does."""

import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from inferrun.kube.objects import Object
from inferrun.launches.manifests import CONTAINER, WARM_UP_CONTAINER
from inferrun.local.pod import Container
from inferrun.local.spare import SpareProcess
from inferrun.stop_timing import STOP
from inferrun.timestamps import rfc3339, utc_now

LOG_BYTES: Final = 2048
"""The end of its log is the termination message of a container that has written none."""

OnLine = Callable[[int, str], None]
"""Called with the number of a shard and a line that its process has written."""


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    exit_code: int
    message: str
    started_at: str
    finished_at: str

    @property
    def state(self) -> Object:
        """The state in the status of a Pod."""
        reason = "Completed" if self.exit_code == 0 else "Error"
        return {
            "terminated": {
                "exitCode": self.exit_code,
                "reason": reason,
                "message": self.message,
                "startedAt": self.started_at,
                "finishedAt": self.finished_at,
            }
        }


def pod_of(name: str, ended: Ended, *, is_warm_up: bool = False) -> Object:
    """The Pod as the API server would show it."""
    statuses = "initContainerStatuses" if is_warm_up else "containerStatuses"
    container = WARM_UP_CONTAINER if is_warm_up else CONTAINER
    return {
        "metadata": {"name": name, "uid": name, "creationTimestamp": ended.started_at},
        "spec": {},
        "status": {
            "phase": "Succeeded" if ended.exit_code == 0 else "Failed",
            statuses: [{"name": container, "state": ended.state}],
        },
    }


def execute(
    containers: Sequence[Container],
    *,
    spare: Callable[[], SpareProcess],
    log: Path,
    lock: Path,
    on_line: OnLine,
    stopping: threading.Event,
) -> list[Ended]:
    """Execute the containers at the same time until the first one has succeeded, or all have ended.
    Each is executed by a process that `spare` returns, and locks a file as long as it lives. Once
    `stopping` is set, which Ctrl-C does, they get SIGTERM, and SIGKILL after the grace period
    of a Pod.
    """
    events: queue.Queue[tuple[int, str | None]] = queue.Queue()
    ended: dict[int, Ended] = {}
    with log.open("ab") as file:
        processes = [_Process(one, file, spare(), lock=lock) for one in containers]
        for at, one in enumerate(processes):
            threading.Thread(target=one.report, args=[at, events.put], daemon=True).start()
        with _ending(processes):
            is_told = False
            while len(ended) < len(processes):
                try:
                    at, line = events.get(timeout=0.1)
                    if line is not None:
                        on_line(at, line)
                    else:
                        ended[at] = processes[at].ended()
                except queue.Empty:
                    pass
                except KeyboardInterrupt:
                    if stopping.is_set():
                        raise  # the second time, nothing is waited for
                    stopping.set()
                has_succeeded = any(one.exit_code == 0 for one in ended.values())
                if not is_told and (stopping.is_set() or has_succeeded):
                    is_told = True
                    for one in processes:
                        one.stop()
    return [ended[at] for at in sorted(ended)]


@contextmanager
def _ending(processes: "Sequence[_Process]") -> Iterator[None]:
    try:
        yield
    finally:
        for one in processes:
            one.kill()


class _Process:
    def __init__(
        self, container: Container, log: IO[bytes], spare: SpareProcess, *, lock: Path
    ) -> None:
        self._container = container
        self._log = log
        self._tail = b""
        self._started_at = rfc3339(utc_now())
        self._spare = spare
        self._process = spare.process
        spare.execute(container.arguments[1:], container.environment, lock=lock)
        self._timer: threading.Timer | None = None

    def report(self, at: int, put: Callable[[tuple[int, str | None]], None]) -> None:
        """Put each line that the process writes, and None once it has ended."""
        for line in self._process.stdout or ():
            self._log.write(line)
            self._log.flush()
            self._tail = (self._tail + line)[-LOG_BYTES:]
            put((at, line.decode(errors="replace")))
        self._process.wait()
        put((at, None))

    def stop(self) -> None:
        """Ask the process to end, and end it after the grace period."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._timer = threading.Timer(STOP.grace, self._process.kill)
            self._timer.daemon = True
            self._timer.start()

    def kill(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._spare.close()

    def ended(self) -> Ended:
        """How it has ended; the exit code of a signal is that of a container."""
        code = self._process.wait()
        code = 128 - code if code < 0 else code
        message = ""
        with suppress(OSError):
            message = self._container.termination_log.read_text(encoding="utf-8", errors="replace")
        if not message and code != 0:
            message = self._tail.decode(errors="replace")
        return Ended(code, message, self._started_at, rfc3339(utc_now()))

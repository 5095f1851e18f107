"""What this machine knows of its runs: a folder per run, with its manifest and status.

It is what the API server is in a cluster: an interrupted run is continued by it, and a run may name
an earlier one with `retryOf` or `input.run`. The records themselves are in the stores.
"""

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferrun.client.errors import InvalidRequest
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.timestamps import utc_now

FOLDER: Final = Path(".inferrun")
"""Below the working directory, as the caches of other tools; it has a .gitignore of its own."""

_IGNORE: Final = "# Written by inferrun: what it knows of the runs of this machine.\n*\n"


@dataclass(frozen=True)
class StoredRun:
    """A run as it was left, and `request`, the digest of all that it was asked for with."""

    run: InferenceRun
    request: str


class LocalState:
    """The runs of this machine in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str) -> StoredRun | None:
        """The run of a name. Raises InvalidRequest if what is stored cannot be read."""
        path = self._path(name)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return StoredRun(parse_run(stored["run"]), str(stored["request"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(
                f"{path} cannot be read: {error}", fix="start over with --fresh"
            ) from error

    def find_run(self, name: str) -> InferenceRun | None:
        """The same without the request."""
        found = self.find(name)
        return found.run if found is not None else None

    def begin(self, run: InferenceRun, *, request: str) -> InferenceRun:
        """The run with an identity: the one that an earlier command has begun, if that was asked
        for the same, or a new one."""
        found = self.find(run.metadata.name)
        if found is not None and found.request == request:
            known = found.run
            return run.model_copy(update={"metadata": known.metadata, "status": known.status})
        metadata = run.metadata.model_copy(
            update={
                "uid": str(uuid.uuid4()),
                "namespace": run.metadata.namespace or "default",
                "creation_timestamp": utc_now(),
                "generation": 1,
            }
        )
        return run.model_copy(update={"metadata": metadata, "status": InferenceRunStatus()})

    def write(self, run: InferenceRun, *, request: str) -> None:
        """Store the run as it is now; after a crash, the file has its old or its new content."""
        path = self._path(run.metadata.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        ignore = self._folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text(_IGNORE, encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump({"request": request, "run": run.to_manifest()}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def forget(self, name: str) -> None:
        """Forget the run; what it has committed stays where it is."""
        shutil.rmtree(self._path(name).parent, ignore_errors=True)

    def scratch(self, name: str) -> Path:
        """The folder for the Pod of the run, and its log."""
        return self._path(name).parent

    @contextmanager
    def locked(self, name: str, *, on_wait: Callable[[], None]) -> Iterator[Path]:
        """Lock the run, so that nobody else executes it; returns the file that its runners lock.
        `on_wait` is called before this waits for another command, or for the runner of one that was
        killed, which ends within seconds.
        """
        runs = self._path(name).parent.parent
        runs.mkdir(parents=True, exist_ok=True)
        runners = runs / f"{name}.runners.lock"
        with ExitStack() as stack:
            for file in (runs / f"{name}.lock", runners):
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
                stack.callback(os.close, descriptor)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    on_wait()
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            yield runners

    def _path(self, name: str) -> Path:
        return self._folder / "runs" / name / "run.json"

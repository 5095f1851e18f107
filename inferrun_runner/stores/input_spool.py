"""Input that its store can read only once, spooled to the Pod's disk. Size and hash are computed
while it is written."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from inferrun.plugins import InputError
from inferrun_runner.stores.disk import refusal
from inferrun_runner.stores.file.local_files import LocalFile


class InputSpool:
    """A file that is written piece by piece. Raises InputError if it becomes too large, or if the
    disk is full."""

    def __init__(
        self, path: Path, *, limit: int, what: str, fix: str = "", others: int = 0
    ) -> None:
        """`what` and `fix` are parts of the message of an input over the limit: what has too many
        bytes, and what else helps.

        `others`: the bytes of other files that the limit includes.
        """
        self._path = path
        self._limit = limit
        self._others = others
        self._what = what
        self._fix = fix
        self._size = 0
        self._digest = hashlib.sha256()

    @contextmanager
    def opened(self) -> Iterator["InputSpool"]:
        """Begin the file, again if an earlier try has left a part of it."""
        self._size, self._digest = 0, hashlib.sha256()
        with disk_errors(self._path.parent):
            out: BinaryIO = self._path.open("wb")
        self._out = out
        try:
            yield self
        finally:
            # after a write that failed, closing tries it once more
            with disk_errors(self._path.parent):
                out.close()

    def write(self, piece: bytes) -> None:
        """Append a piece."""
        self._size += len(piece)
        if self._others + self._size > self._limit:
            raise too_large(self._what, self._limit, fix=self._fix)
        self._digest.update(piece)
        with disk_errors(self._path.parent):
            self._out.write(piece)
            self._out.flush()

    @property
    def digest(self) -> str:
        """The SHA-256 of what was written."""
        return self._digest.hexdigest()

    @property
    def file(self) -> LocalFile:
        """The file, as formats read it."""
        return LocalFile(self._path.parent, self._path.name, self._size)


@contextmanager
def spool_folder(parent: Path) -> Iterator[Path]:
    """Create a folder for spooled input, which is deleted when the context ends."""
    with disk_errors(parent):
        folder = tempfile.TemporaryDirectory(prefix="input-", dir=parent)
    with folder:
        yield Path(folder.name)


def too_large(what: str, limit: int, *, fix: str = "") -> InputError:
    """Return the error of an input that would need too much of the Pod's disk."""
    return InputError(
        f"{what} more than {limit} bytes; {fix}set a larger limits.spool in the config",
        is_retryable=False,
    )


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise InputError for what the Pod's disk refuses."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot spool the input to {folder}: {refusal(error, folder)}; the Pod needs enough ephemeral storage for all of it"
        ) from error

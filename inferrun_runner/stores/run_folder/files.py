"""What the output of a run needs of a place for files: six operations, and a check that the place
supports them."""

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from inferrun.formats.dataset import ListedFile
from inferrun.manifest import StoredFile
from inferrun_runner.stores.run_folder.spool import Draft

PROBES: Final = "probes/"
"""The folder, within that of a run, of what `RunFiles.check` creates in a bucket."""


class RunFiles(Protocol):
    """Files whose names are paths with "/" below the root of a claim or bucket.

    All methods block and raise OutputError, for an input InputError. What they have stored or found
    is durable when they return.
    """

    def create(self, name: str, content: bytes) -> bool:
        """Store a file unless the name exists; return False if it does, with another content."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, None if the name does not exist."""

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of a file that had that size, nothing or less if it is missing or has
        changed."""

    def list_below(self, folder: str) -> Sequence[ListedFile]:
        """Return the files below a folder, whose name ends with "/", in any order."""

    def put(self, name: str, content: bytes | Path) -> None:
        """Store bytes or a file, whether or not the name exists. No reader sees a part of it."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; a missing one is ignored."""

    def check(self, folder: str) -> None:
        """Raise OutputError if `create` replaces files in that folder, which need not exist. Leaves
        nothing behind, unless the Pod dies: what is below PROBES is deleted when the run is
        committed."""


def copied(files: RunFiles, folder: str, file: StoredFile, to: Path) -> Path | None:
    """Return a copy, in a folder of the Pod's disk, of a committed file; None if that is missing or
    has changed."""
    draft = Draft(to / uuid.uuid4().hex)
    try:
        for piece in files.pieces(f"{folder}/{file.file}", file.bytes):
            draft.write(piece)
        draft.write(b"")  # an empty file is a file
    finally:
        draft.finish()
    return draft.path if draft.sha256 == file.sha256 else None

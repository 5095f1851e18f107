"""Files in a directory: a claim that is mounted, or a copy of what is on it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from inferrun.formats.dataset import ListedFile
from inferrun.results.errors import ResultsUnreachable


class DirectoryFiles:
    """The files below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str, *, size: int | None = None) -> bytes | None:
        """Return the content of a file; None if it does not exist, or has another size than
        given."""
        path = self._root / name
        with self._errors():
            if not path.is_file() or size not in (None, path.stat().st_size):
                return None
            return path.read_bytes()

    def find(self, path: str) -> list[ListedFile]:
        """Return the file of that name, or those below the folder of that name."""
        place = self._root / path
        with self._errors():
            found = (
                [place] if place.is_file() else [one for one in place.rglob("*") if one.is_file()]
            )
            return [
                ListedFile(one.relative_to(self._root).as_posix(), one.stat().st_size)
                for one in found
            ]

    def copy(self, name: str, out: BinaryIO) -> str:
        """Write the content of a file to another one. Files have no Content-Encoding."""
        with self._errors(), (self._root / name).open("rb") as source:
            shutil.copyfileobj(source, out, 1 << 20)
        return ""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ResultsUnreachable(
                f"cannot read {error.filename or self._root}: {error.strerror}"
            ) from error

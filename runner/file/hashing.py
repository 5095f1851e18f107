"""Reads a file and computes its size and hash in the same pass."""

import hashlib
import io
from pathlib import Path
from types import TracebackType


class _HashingFile(io.RawIOBase):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._source = path.open("rb", buffering=0)
        self.digest = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]  # BufferedReader passes these
        view = memoryview(buffer)
        count = self._source.readinto(view) or 0
        self.digest.update(view[:count])
        self.size += count
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class HashingReader:
    """An opened file; `file` reads it from start to end."""

    def __init__(self, path: Path) -> None:
        self._raw = _HashingFile(path)
        self.file = io.BufferedReader(self._raw)

    def finish(self) -> tuple[int, str]:
        """Read what is left and return the size in bytes and the SHA-256 of the whole file."""
        while self.file.read(1 << 20):
            pass
        return self._raw.size, self._raw.digest.hexdigest()

    def __enter__(self) -> "HashingReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.file.close()

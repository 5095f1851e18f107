"""Compressed input files: decompressed once per Pod to its disk, and read from there like any other file.

A compressed file cannot be read from the middle, which resuming and dividing need. Only files that this attempt reads are
decompressed. Memory does not depend on their size; the disk is limited by `spool_bytes`, which also stops a decompression bomb.
"""

import gzip
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from inferrun.plugins import InputError, InputFile, Limits

_PIECE: Final = 1 << 20


def _open_gzip(source: BinaryIO) -> BinaryIO:
    return gzip.GzipFile(fileobj=source)  # type: ignore[return-value]  # it is read like one


def _open_zstd(source: BinaryIO) -> BinaryIO:
    import pyarrow  # noqa: PLC0415  only runs with such files pay for its import

    found: BinaryIO = pyarrow.CompressedInputStream(pyarrow.PythonFile(source, mode="r"), "zstd")
    return found


_OPENERS: Final[dict[str, Callable[[BinaryIO], BinaryIO]]] = {".gz": _open_gzip, ".zst": _open_zstd}


def has_suffix(name: str, suffix: str) -> bool:
    """Return whether a file name ends with a format's extension, with or without that of a compression after it."""
    return name.endswith((suffix, *(f"{suffix}{one}" for one in _OPENERS)))


@contextmanager
def decompressed(files: Sequence[InputFile], folder: Path, limits: Limits) -> Iterator[Sequence[InputFile]]:
    """Return the files, the compressed ones in a form that can be read anywhere until the context ends."""
    spool = _Spool(folder / "decompressed", limits.spool_bytes)
    try:
        yield [_SpooledFile(file, spool) if _suffix_of(file.name) else file for file in files]
    finally:
        spool.delete()


def _suffix_of(name: str) -> str:
    return next((suffix for suffix in _OPENERS if name.endswith(suffix)), "")


class _Spool:
    """The folder of the decompressed files, and how much may still be written to it."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._left = limit
        self._paths: list[Path] = []

    def new_path(self) -> Path:
        self._folder.mkdir(exist_ok=True)
        self._paths.append(self._folder / f"{len(self._paths)}")
        return self._paths[-1]

    def take(self, size: int, *, name: str) -> None:
        self._left -= size
        if self._left < 0:
            raise InputError(
                f"{name}: the decompressed input has more than {self._limit} bytes; set a larger INFERRUN_SPOOL_BYTES in the "
                "image, or store the input uncompressed",
                is_retryable=False,
            )

    def delete(self) -> None:
        for path in self._paths:
            path.unlink(missing_ok=True)
        if self._paths:
            self._folder.rmdir()


class _SpooledFile:
    """A compressed file, which is decompressed when it is first needed."""

    def __init__(self, file: InputFile, spool: _Spool) -> None:
        self._file = file
        self._spool = spool
        self._path: Path | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the compressed file, which is what its owner knows."""
        return self._file.name

    @property
    def size(self) -> int:
        """The decompressed size."""
        return self._decompressed().stat().st_size

    def open(self) -> BinaryIO:
        """Open the decompressed file."""
        return self._decompressed().open("rb")

    def _decompressed(self) -> Path:
        with self._lock:
            if self._path is None:
                self._path = self._decompress(self._spool.new_path())
            return self._path

    def _decompress(self, path: Path) -> Path:
        name = self._file.name
        with self._file.open() as source, path.open("wb") as out:
            try:
                with _OPENERS[_suffix_of(name)](source) as pieces:
                    while piece := pieces.read(_PIECE):
                        self._spool.take(len(piece), name=name)
                        out.write(piece)
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise InputError(f"{name} is not a complete gzip file", is_retryable=False) from error
            except OSError as error:
                if error.errno is not None:
                    raise
                raise InputError(f"{name} is not a complete zstd file", is_retryable=False) from error
        return path

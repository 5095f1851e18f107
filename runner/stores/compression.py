"""Compressed input files: decompressed once per Pod to its disk, and read from there like any other file.

A compressed file cannot be read from the middle, which resuming and dividing need. Only files that this attempt reads are
decompressed. Memory does not depend on their size; the disk is limited by `spool_bytes`, which also stops a decompression bomb.
"""

import gzip
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from inferrun.formats.file_kinds import HEAD, kind_of
from inferrun.formats.skipped_files import COMPRESSED
from inferrun.plugins import InputError, InputFile, StoreContext
from runner.stores.file.local_files import LocalFile
from runner.stores.input_spool import InputSpool, spool_folder

_PIECE: Final = 1 << 20


def _open(source: BinaryIO, name: str) -> BinaryIO:
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=source)  # type: ignore[return-value]  # it is read like one
    import pyarrow  # noqa: PLC0415  only runs with such files pay for its import

    found: BinaryIO = pyarrow.CompressedInputStream(pyarrow.PythonFile(source, mode="r"), "zstd")
    return found


@contextmanager
def decompressed(
    files: Sequence[InputFile], context: StoreContext, *, suffixes: Sequence[str]
) -> Iterator[Sequence[InputFile]]:
    """Return the files, the compressed ones in a form that can be read anywhere until the context ends.

    A format that reads every file, without extensions of its own, reads them as they are.
    """
    if not suffixes:
        yield files
        return
    with spool_folder(context.spool_dir) as folder:
        disk = _Disk(folder, context.limits.spool_bytes)
        yield [_DecompressedFile(file, disk) if file.name.endswith(COMPRESSED) else file for file in files]


class _Disk:
    """The folder of the decompressed files, which together have a limit. They are decompressed one after the other."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._size = 0
        self._count = 0
        self.lock = threading.Lock()

    def decompress(self, file: InputFile) -> LocalFile:
        name = file.name
        self._count += 1
        spool = InputSpool(
            self._folder / f"{self._count}",
            limit=self._limit,
            others=self._size,
            what=f"{name}: the decompressed input has",
            fix="store the input uncompressed, or ",
        )
        with file.open() as source, spool.opened():
            try:
                with _open(source, name) as pieces:
                    while piece := pieces.read(_PIECE):
                        spool.write(piece)
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise _fault(file, "gzip") from error
            except OSError as error:
                if error.errno is not None:
                    raise
                raise _fault(file, "zstd", f" ({error})") from error
        self._size += spool.file.size
        return spool.file


def _fault(file: InputFile, expected: str, reason: str = "") -> InputError:
    with file.open() as source:
        kind = kind_of(source.read(HEAD))
    if kind != expected:
        reason = f"; it is {kind or 'not compressed'}, so rename it"
    elif "memory" in reason:  # zstd --long=28 and more; with up to 27, all readers have the memory
        reason = f"{reason}; compress it with a window of at most 128 MiB, as zstd does without --long"
    return InputError(f"{file.name} is not a complete {expected} file{reason}", is_retryable=False)


class _DecompressedFile:
    """A compressed file, which is decompressed when it is first needed."""

    def __init__(self, file: InputFile, disk: _Disk) -> None:
        self._file = file
        self._disk = disk
        self._decompressed: LocalFile | None = None

    @property
    def name(self) -> str:
        """The name of the compressed file, which is what its owner knows."""
        return self._file.name

    @property
    def size(self) -> int:
        """The decompressed size."""
        return self._content().size

    def open(self) -> BinaryIO:
        """Open the decompressed file."""
        return self._content().open()

    def _content(self) -> LocalFile:
        with self._disk.lock:
            if self._decompressed is None:
                self._decompressed = self._disk.decompress(self._file)
            return self._decompressed

"""Compressed input files: decompressed once per Pod to its disk, and read from there like any other
file.

A compressed file cannot be read from the middle, which resuming and dividing need. Only files that
this attempt reads are decompressed. Memory does not depend on their size; the disk is limited by
`spool_bytes`, which also stops a decompression bomb.

A file is compressed if its name or the Content-Encoding that its server has stored with it says so.
Lists do not have the latter, so a file is asked when it is first used.
"""

import gzip
import io
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from inferrun.formats.compressions import COMPRESSED, NotDecompressed, compressions_of
from inferrun.formats.file_kinds import HEAD, HTML, kind_of
from inferrun.plugins import InputFile, StoreContext
from inferrun_runner.stores.file.local_files import LocalFile
from inferrun_runner.stores.input_spool import InputSpool, spool_folder

F = TypeVar("F", bound=InputFile)

_PIECE: Final = 1 << 20


@contextmanager
def decompressed(
    files: Sequence[F],
    context: StoreContext,
    *,
    suffixes: Sequence[str],
    encoding_of: Callable[[F], str] | None = None,
) -> Iterator[Sequence[InputFile]]:
    """Return the files, the compressed ones in a form that can be read anywhere until the context
    ends.

    A format that reads every file, without extensions of its own, reads those that only their names
    call compressed as they are. `encoding_of` returns a file's Content-Encoding; None if files have
    none.
    """
    is_named = bool(suffixes)

    def compressions(file: F) -> tuple[str, ...]:
        try:
            return compressions_of(
                file.name, encoding_of(file) if encoding_of else "", is_named=is_named
            )
        except ValueError as error:
            raise NotDecompressed(f"{file.name} is stored with {error}") from error

    def readable(file: F, disk: "_Disk") -> InputFile:
        if encoding_of is None and not (is_named and file.name.endswith(COMPRESSED)):
            return file
        found = partial(compressions, file)
        return _DecompressedFile(file, found, disk) if is_named else _WholeFile(file, found)

    with spool_folder(context.spool_dir) as folder:
        disk = _Disk(folder, context.limits.spool_bytes)
        yield [readable(file, disk) for file in files]


class _Stream(io.RawIOBase):
    """What a compressed file contains, from the beginning. Raises NotDecompressed."""

    def __init__(self, file: InputFile, compressions: Sequence[str]) -> None:
        super().__init__()
        self._file = file
        self._opened = ExitStack()
        self._source = self._opened.enter_context(file.open())
        for found in compressions:
            self._source = self._opened.enter_context(_open(self._source, found))

    def readable(self) -> bool:
        return True

    # Any: the buffer protocol has no type in Python 3.11
    def readinto(self, buffer: Any, /) -> int:
        try:
            piece = self._source.read(len(buffer))
            buffer[: len(piece)] = piece
            return len(piece)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise _fault(self._file, "gzip") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise _fault(self._file, "zstd", f" ({error})") from error

    def close(self) -> None:
        self._opened.close()
        super().close()


def _open(source: BinaryIO, compression: str) -> BinaryIO:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=source, mode="rb")  # type: ignore[return-value]  # it is read like one
    import pyarrow  # noqa: PLC0415  only runs with such files pay for its import

    found: BinaryIO = pyarrow.CompressedInputStream(pyarrow.PythonFile(source, mode="r"), "zstd")
    return found


class _Disk:
    """The folder of the decompressed files, which together have a limit. They are decompressed one
    after the other."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._size = 0
        self._count = 0
        self._lock = threading.Lock()

    def decompress(self, file: InputFile, compressions: Sequence[str]) -> LocalFile:
        """Return the file. Raises InputError."""
        with self._lock:
            return self._decompress(file, compressions)

    def _decompress(self, file: InputFile, compressions: Sequence[str]) -> LocalFile:
        self._count += 1
        spool = InputSpool(
            self._folder / f"{self._count}",
            limit=self._limit,
            others=self._size,
            what=f"{file.name}: the decompressed input has",
            fix="store the input uncompressed, or ",
        )
        with io.BufferedReader(_Stream(file, compressions)) as pieces, spool.opened():
            while piece := pieces.read(_PIECE):
                spool.write(piece)
        self._size += spool.file.size
        return spool.file


def _fault(file: InputFile, expected: str, reason: str = "") -> NotDecompressed:
    with file.open() as source:
        kind = kind_of(source.read(HEAD))
    if kind != expected:
        fix = "rename it" if file.name.endswith(COMPRESSED) else "correct its Content-Encoding"
        reason = (
            f"; it is {kind}" if kind == HTML else f"; it is {kind or 'not compressed'}, so {fix}"
        )
    elif "memory" in reason:  # zstd --long=28 and more; with up to 27, all readers have the memory
        reason = (
            f"{reason}; compress it with a window of at most 128 MiB, as zstd does without --long"
        )
    return NotDecompressed(f"{file.name} is not a complete {expected} file{reason}")


class _DecompressedFile:
    """A file that may be compressed. It is decompressed when it is first needed."""

    def __init__(
        self, file: InputFile, compressions: Callable[[], Sequence[str]], disk: _Disk
    ) -> None:
        self._file = file
        self._compressions = compressions
        self._disk = disk
        self._lock = threading.Lock()
        self._readable: InputFile | None = None

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

    def _content(self) -> InputFile:
        with self._lock:
            if self._readable is None:
                found = self._compressions()
                self._readable = self._disk.decompress(self._file, found) if found else self._file
            return self._readable


class _WholeFile:
    """A file that may be compressed, and is read from its beginning only, as a record is."""

    def __init__(self, file: InputFile, compressions: Callable[[], Sequence[str]]) -> None:
        self._file = file
        self._compressions = compressions
        self.name = file.name
        self.size = file.size
        """The size as listed: to know more, it would have to be read."""

    def open(self) -> BinaryIO:
        """Open what it contains."""
        if found := self._compressions():
            return io.BufferedReader(_Stream(self._file, found))
        return self._file.open()

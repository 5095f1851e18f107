"""Remote files, of which each block is downloaded once per Pod: it is kept on the disk, and those
that follow are read ahead.

The check of the first records, the plan and the run itself read the same bytes, and formats ask for
small pieces at any position. So the latency of a server counts once for many blocks, not for each.
"""

import io
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final

from inferrun.plugins import InputError, StoreContext
from inferrun.plugins.limits import KIB, MIB
from inferrun_runner.stores.disk import refusal
from inferrun_runner.stores.input_spool import spool_folder

BLOCK: Final = 2 * MIB

_BUFFER: Final = 256 * KIB

_READS: Final = 128
"""Requests at a time: with a latency of 0.1 s, more than a thousand small files a second."""

_BLOCKS_AHEAD: Final = 8
"""The blocks of a file that is read from one block to the next."""

_FILES_AHEAD: Final = 256
_BYTES_AHEAD: Final = _BLOCKS_AHEAD * BLOCK
"""The bytes of files of one block each, which are read one after the other."""


@dataclass(frozen=True, slots=True)
class ReturnedRange:
    """What a server returned for a range of a file."""

    content: bytes
    encoding: str = ""
    """The Content-Encoding that is stored with the file."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on a server."""

    name: str
    size: int

    read: Callable[[int, int], ReturnedRange]
    """Returns what is stored at a start, with a length, in any thread. Raises InputError, also if
    the file has changed."""


@contextmanager
def cached(files: Sequence[RemoteFile], context: StoreContext) -> Iterator[Sequence["CachedFile"]]:
    """Return the files in the order in which they are read; they can be read anywhere until the
    context ends."""
    with spool_folder(context.spool_dir) as folder:
        cache = _BlockCache(
            files, folder, limit=max(context.limits.spool_bytes // 4, 2 * _BYTES_AHEAD)
        )
        try:
            yield [CachedFile(one.name, one.size, cache, unit) for unit, one in enumerate(files)]
        finally:
            cache.close()


class _BlockCache:
    """Blocks, each identified by the number of its file and its own, as files of a folder that
    together have a limit.

    The limit is larger than what is read ahead, so that no block is deleted before it is used.
    """

    def __init__(self, files: Sequence[RemoteFile], folder: Path, *, limit: int) -> None:
        self._files = files
        self._folder = folder
        self._limit = limit
        self._size = 0
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[int, int], Future[int]] = OrderedDict()
        self._ends = [0, *accumulate(one.size for one in files)]
        self._next = 0
        """The first file that was not read ahead, of those that follow one of a single block."""

        self._runs: dict[int, tuple[int, int]] = {}
        """The reads of each large file: the last block, and how many were read before it without a
        gap."""

        self._encodings: dict[int, str] = {}
        self._pool = ThreadPoolExecutor(_READS, thread_name_prefix="blocks")

    def read(self, unit: int, start: int, view: memoryview) -> int:
        """Copy what a file has from `start`, up to the end of a block, and return the number of
        bytes."""
        key = unit, start // BLOCK
        while True:
            with self._lock:
                if key not in self._blocks:
                    self._next = unit + 1
                found = self._request(*key)
                self._read_ahead(*key)
            try:
                found.result()
            except BaseException:
                with self._lock:
                    self._blocks.pop(key, None)
                raise
            with self._lock:
                if key in self._blocks:  # otherwise others have replaced it in the meantime
                    with self._path(*key).open("rb") as file:
                        file.seek(start % BLOCK)
                        return file.readinto(view)

    def encoding_of(self, unit: int) -> str:
        """Return the Content-Encoding of a file, which each of its blocks tells. The last one is
        what tables are opened with."""
        if unit not in self._encodings:
            self.read(unit, self._files[unit].size - 1, memoryview(bytearray(1)))
        return self._encodings[unit]

    def close(self) -> None:
        """Stop reading."""
        self._pool.shutdown(cancel_futures=True)

    def _request(self, unit: int, block: int) -> Future[int]:
        key = unit, block
        if key not in self._blocks:
            self._blocks[key] = self._pool.submit(self._download, unit, block)
        self._blocks.move_to_end(key)
        return self._blocks[key]

    def _read_ahead(self, unit: int, block: int) -> None:
        """Request what is likely to be read next. Of a large file few blocks at first: a format may
        need some columns only."""
        if self._files[unit].size > BLOCK:
            last, run = self._runs.get(unit, (-1, 0))
            if block != last:
                run = run + 1 if block == last + 1 else 0
                self._runs[unit] = block, run
            end = -(-self._files[unit].size // BLOCK)
            for other in range(block + 1, min(block + 1 + min(2 * run, _BLOCKS_AHEAD), end)):
                self._request(unit, other)
            return
        stop = min(
            unit + 1 + _FILES_AHEAD,
            bisect_right(self._ends, self._ends[unit + 1] + _BYTES_AHEAD) - 1,
        )
        while self._next < stop and self._files[self._next].size <= BLOCK:
            self._request(self._next, 0)
            self._next += 1

    def _download(self, unit: int, block: int) -> int:
        file = self._files[unit]
        start = block * BLOCK
        part = file.read(start, min(BLOCK, file.size - start))
        self._encodings[unit], content = part.encoding, part.content
        try:
            self._path(unit, block).write_bytes(content)
        except OSError as error:
            raise InputError(
                f"cannot spool the input to {self._folder.parent}: {refusal(error, self._folder)}"
            ) from error
        with self._lock:
            self._size += len(content)
            self._evict()
        return len(content)

    def _evict(self) -> None:
        """Delete the blocks that were not used for the longest time."""
        while self._size > self._limit:
            key, held = next(iter(self._blocks.items()))
            if not held.done() or held.cancelled():
                return
            del self._blocks[key]
            if held.exception() is None:
                self._path(*key).unlink()
                self._size -= held.result()

    def _path(self, unit: int, block: int) -> Path:
        return self._folder / f"{unit}-{block}"


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A remote file, as formats read it."""

    name: str
    size: int
    cache: _BlockCache
    unit: int

    def encoding(self) -> str:
        """Return the Content-Encoding that is stored with the file."""
        return self.cache.encoding_of(self.unit)

    def open(self) -> BinaryIO:
        """Open the file for reading at any position."""
        return io.BufferedReader(_Reader(self), buffer_size=_BUFFER)


class _Reader(io.RawIOBase):
    def __init__(self, file: CachedFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = base + offset
        return self._position

    # Any: the buffer protocol has no type in Python 3.11
    def readinto(self, buffer: Any, /) -> int:
        if self._position >= self._file.size:
            return 0
        count = self._file.cache.read(self._file.unit, self._position, memoryview(buffer))
        self._position += count
        return count

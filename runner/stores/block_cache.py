"""Remote files, of which each block is downloaded once per Pod: it is kept on the disk, and those that follow are read ahead.

The check of the first records, the plan and the run itself read the same bytes, and formats ask for small pieces at any position.
So the latency of a server counts once for many blocks, not for each.
"""

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from inferrun.plugins import InputError, StoreContext
from inferrun.plugins.limits import KIB, MIB
from runner.stores.input_spool import spool_folder

BLOCK: Final = 2 * MIB

_BUFFER: Final = 256 * KIB

_THREADS: Final = 32
_BLOCKS_AHEAD: Final = 8
"""Of a file that is read from one block to the next."""

_FILES_AHEAD: Final = 64
_BYTES_AHEAD: Final = _BLOCKS_AHEAD * BLOCK
"""Of files of one block each, which are read one after the other."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on a server."""

    name: str
    size: int

    read: Callable[[int, int], bytes]
    """Returns the bytes of a start and a length, in any thread. Raises InputError, also if the file has changed."""


@contextmanager
def cached(files: Sequence[RemoteFile], context: StoreContext) -> Iterator[Sequence["CachedFile"]]:
    """Return the files in the order in which they are read; they can be read anywhere until the context ends."""
    with spool_folder(context.spool_dir) as folder:
        cache = _BlockCache(files, folder, limit=context.limits.spool_bytes // 4)
        try:
            yield [CachedFile(one.name, one.size, cache, unit) for unit, one in enumerate(files)]
        finally:
            cache.close()


class _BlockCache:
    """Blocks, each identified by the number of its file and its own, as files of a folder that together have a limit."""

    def __init__(self, files: Sequence[RemoteFile], folder: Path, *, limit: int) -> None:
        self._files = files
        self._folder = folder
        self._limit = limit
        self._size = 0
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[int, int], Future[int]] = OrderedDict()
        self._runs: dict[
            int, tuple[int, int]
        ] = {}  # of a file: the last block, and how many were read before it without a gap
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="blocks")

    def read(self, unit: int, start: int, view: memoryview) -> int:
        """Copy what a file has from `start`, up to the end of a block, and return the number of bytes."""
        key = unit, start // BLOCK
        while True:
            with self._lock:
                found = self._request(*key)
                for other in self._ahead(*key):
                    self._request(*other)
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

    def close(self) -> None:
        """Stop reading."""
        self._pool.shutdown(cancel_futures=True)

    def _request(self, unit: int, block: int) -> Future[int]:
        key = unit, block
        if key not in self._blocks:
            self._blocks[key] = self._pool.submit(self._download, unit, block)
        self._blocks.move_to_end(key)
        return self._blocks[key]

    def _ahead(self, unit: int, block: int) -> Iterator[tuple[int, int]]:
        """Yield the blocks that are likely to be read next. Few at first: a format may need some columns only."""
        if self._files[unit].size <= BLOCK:
            ahead = 0
            for other in range(unit + 1, min(unit + 1 + _FILES_AHEAD, len(self._files))):
                ahead += self._files[other].size
                if self._files[other].size > BLOCK or ahead > _BYTES_AHEAD:
                    return
                yield other, 0
            return
        last, run = self._runs.get(unit, (-1, 0))
        if block != last:
            run = run + 1 if block == last + 1 else 0
            self._runs[unit] = block, run
        end = -(-self._files[unit].size // BLOCK)
        yield from ((unit, other) for other in range(block + 1, min(block + 1 + min(2 * run, _BLOCKS_AHEAD), end)))

    def _download(self, unit: int, block: int) -> int:
        file = self._files[unit]
        start = block * BLOCK
        content = file.read(start, min(BLOCK, file.size - start))
        try:
            self._path(unit, block).write_bytes(content)
        except OSError as error:
            raise InputError(f"cannot spool the input to {self._folder.parent}: {error.strerror}") from error
        with self._lock:
            self._size += len(content)
            self._evict()
        return len(content)

    def _evict(self) -> None:
        """Delete the blocks that were not used for the longest time, except the last ones."""
        for key in list(self._blocks)[: -2 * _FILES_AHEAD]:
            if self._size <= self._limit:
                return
            held = self._blocks[key]
            if held.done() and not held.cancelled() and held.exception() is None:
                del self._blocks[key]
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

    def readinto(self, buffer: Any, /) -> int:  # Any: the buffer protocol has no type in Python 3.11
        if self._position >= self._file.size:
            return 0
        count = self._file.cache.read(self._file.unit, self._position, memoryview(buffer))
        self._position += count
        return count

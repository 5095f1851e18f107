"""The predictions of a run by the keys of their records, in memory until they are many, then on the
Pod's disk.

Whatever their number, they take a few MiB of memory: what has not been stored yet, a filter that
tells most new keys from stored ones, and the cache of the database with the places of the others.
"""

import logging
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from inferrun_runner.sending.scratch_database import scratch_database

_log = logging.getLogger(__name__)

_HELD_BYTES: Final = 1 << 20
"""Memory of the predictions that are stored together."""

_ENTRY_BYTES: Final = 200
"""Memory of an entry besides its prediction."""

_FILTER_BYTES: Final = 1 << 22
"""With five million keys, one in seven new ones is looked for in vain."""

_CACHE_KIB: Final = 4 * 1024
_TABLE: Final = (
    "create table places (key blob primary key, start integer, size integer) without rowid;"
)
_FEWEST_BYTES: Final = 64 * 1024
"""Size of the database whatever the limit is."""


class Answers:
    """Predictions as JSON texts. `store` and `find` block, and are called one at a time, also on
    other threads."""

    def __init__(self, folder: Path, *, limit: int) -> None:
        """`limit`: bytes on the disk, for the predictions and the same for their places, in files of
        the folder that have no name. Beyond it, nothing is added."""
        self._folder = folder
        self._limit = limit
        self._held = dict[bytes, bytes]()
        self._held_bytes = 0
        self._flushed: Mapping[bytes, bytes] = {}
        """What is being stored."""

        self._filter = bytearray()
        self._places: sqlite3.Connection | None = None
        self._texts: IO[bytes] | None = None
        self._size = 0
        self._is_full = False

    def add(self, key: bytes, text: bytes) -> None:
        """Hold a prediction."""
        if not self._is_full:
            self._held[key] = text
            self._held_bytes += len(text) + _ENTRY_BYTES

    @property
    def is_to_flush(self) -> bool:
        """Whether so much is held that it is to be stored."""
        return self._held_bytes >= _HELD_BYTES

    def held(self, key: bytes) -> bytes | None:
        """Return a prediction that is in memory."""
        return self._held.get(key) or self._flushed.get(key)

    def may_be_stored(self, key: bytes) -> bool:
        """Return whether `find` may know a key; usually it does if this is true."""
        return bool(self._filter) and self._filter[_place_of(key)] >> (key[0] & 7) & 1 == 1

    def take(self) -> Mapping[bytes, bytes]:
        """Return what is held, to be given to `store` next."""
        self._flushed, self._held, self._held_bytes = self._held, {}, 0
        return self._flushed

    def store(self, entries: Mapping[bytes, bytes]) -> None:
        """Store what was taken. A full disk or limit ends the collection, not the run."""
        try:
            self._store(entries)
        except (OSError, sqlite3.Error) as error:
            self._is_full = True
            if isinstance(error, sqlite3.Error):
                # Without a journal, a statement that fails may leave anything behind.
                self._filter = bytearray()
            _log.warning(
                "no more predictions are kept for records that are the same",
                extra={"error": str(error)},
            )
        self._flushed = {}

    def find(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Return the stored predictions of these keys."""
        return dict(self._found(keys))

    def close(self) -> None:
        """Free the disk."""
        if self._places is not None:
            self._places.close()
        if self._texts is not None:
            self._texts.close()

    def _found(self, keys: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        if self._places is None or self._texts is None:
            return
        for key in keys:
            row = self._places.execute(
                "select start, size from places where key = ?", [key]
            ).fetchone()
            if row is not None:
                self._texts.seek(row[0])
                yield key, self._texts.read(row[1])

    def _store(self, entries: Mapping[bytes, bytes]) -> None:
        if self._places is None or self._texts is None:
            self._places, self._texts = self._opened()
            self._filter = bytearray(_FILTER_BYTES)
        content = b"".join(entries.values())
        if self._size + len(content) > self._limit:
            raise OSError(f"they have more than {self._limit} bytes; see limits.spool")
        rows, start = list[tuple[bytes, int, int]](), self._size
        for key, text in entries.items():
            rows.append((key, start, len(text)))
            start += len(text)
        self._texts.seek(self._size)
        self._texts.write(content)
        self._texts.flush()
        with self._places:
            rows.sort()  # so that neighbors are on one page
            self._places.executemany("insert or ignore into places values (?, ?, ?)", rows)
        self._size = start
        for key in entries:
            self._filter[_place_of(key)] |= 1 << (key[0] & 7)

    def _opened(self) -> tuple[sqlite3.Connection, IO[bytes]]:
        texts = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  until `close`
        places = scratch_database(
            self._folder / "places-of-answers",
            _TABLE,
            limit=max(_FEWEST_BYTES, self._limit),
            cache_kib=_CACHE_KIB,
        )
        return places, texts


def _place_of(key: bytes) -> int:
    return int.from_bytes(key[1:5], "little") % _FILTER_BYTES

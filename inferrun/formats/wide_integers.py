"""Files with integers of 128 bits, which polars writes: pyarrow (26.0) opens none, even if the
column is not used.

Arrow's schema is a FlatBuffers table (`Schema.fbs`), also in the metadata of Parquet. An integer of
128 bits becomes 16 bytes of a fixed length in it, which has the same size in memory and in the
schema; everything else stays. Such a column is refused if it is used. pyarrow has verified the
table when it says that it lacks the type. Pure.
"""

import io
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import BinaryIO, Final

import pyarrow

from inferrun.formats.columns import UNREAD

_MAGIC: Final = b"ARROW1"
_INTEGER, _FIXED_BINARY = 2, 15
"""In the union of types."""

_TYPE_CODE, _TYPE, _CHILDREN = 2, 3, 5
"""Members of a field."""

_MEMBER: Final = b"ARROW:schema"
"""In the metadata of Parquet: an encapsulated message, as base64."""

_LONGEST: Final = 16 << 20
"""Bytes of a footer."""


def without_wide_integers(source: BinaryIO, error: pyarrow.ArrowException) -> "Replaced":
    """Return an Arrow IPC or Parquet file that can be opened, or raise the error that pyarrow has
    raised."""
    try:
        source.seek(0)
        found = (_arrow if source.read(len(_MAGIC)) == _MAGIC else _parquet)(source)
    except (ValueError, struct.error, IndexError, StopIteration, RecursionError):
        raise error from None
    if not found.columns:
        raise error
    return found


def _arrow(source: BinaryIO) -> "Replaced":
    end = source.seek(0, io.SEEK_END) - len(_MAGIC) - 4
    source.seek(end)
    size = struct.unpack("<i", source.read(4))[0]
    if not 0 < size <= min(end, _LONGEST):
        raise ValueError("no footer")
    source.seek(end - size)
    footer = bytearray(source.read(size))
    root = _table(footer, 0)
    return Replaced(source, end - size, footer, columns=_replace(footer, _member(footer, root, 1)))


def _parquet(source: BinaryIO) -> "Replaced":
    end = source.seek(0, io.SEEK_END) - 8
    source.seek(end)
    size = struct.unpack("<I", source.read(4))[0]
    if not 0 < size <= min(end, _LONGEST):
        raise ValueError("no footer")
    source.seek(end - size)
    footer = source.read(size)
    key = footer.index(_MEMBER) + len(_MEMBER)
    start = next(
        at for at in range(key, key + 16) if footer.startswith(b"/////", at)
    )  # the size of the message follows
    stop = next(
        at
        for at in range(start, size)
        if not chr(footer[at]).isalnum() and footer[at] not in b"+/="
    )
    stop -= (stop - start) % 4
    message = bytearray(b64decode(footer[start:stop]))
    body = message[8:]
    columns = _replace(body, _member(body, _table(body, 0), 2))
    return Replaced(source, end - size + start, b64encode(message[:8] + body), columns=columns)


class Replaced(io.RawIOBase):
    """A file some of whose bytes are others."""

    def __init__(
        self, source: BinaryIO, start: int, content: bytes | bytearray, *, columns: list[str]
    ) -> None:
        self.columns = columns
        """Those that are not what they were."""

        self._source = source
        self._start = start
        self._content = bytes(content)

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it has positions."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._source.tell()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        at = self._source.tell()
        found = self._source.read(size)
        low, high = max(at, self._start), min(at + len(found), self._start + len(self._content))
        if low >= high:
            return found
        return (
            found[: low - at]
            + self._content[low - self._start : high - self._start]
            + found[high - at :]
        )

    def marked(self, schema: pyarrow.Schema) -> pyarrow.Schema:
        """Return the schema with a mark on the columns that are not what they were."""
        for name in self.columns:
            at = schema.get_field_index(name)
            metadata = {**(schema.field(at).metadata or {}), UNREAD: b"of integers of 128 bits"}
            schema = schema.set(at, schema.field(at).with_metadata(metadata))
        return schema


def _replace(content: bytearray, schema: int) -> list[str]:
    """Change the types in a schema, and return the columns that had or contained one."""
    return [
        _text(content, _member(content, field, 0))
        for field in _vector(content, schema, 1)
        if _change(content, field)
    ]


def _change(content: bytearray, field: int) -> bool:
    found = [_change(content, child) for child in _vector(content, field, _CHILDREN)]
    code = _place(content, field, _TYPE_CODE)
    if code and content[code] == _INTEGER:
        width = _place(content, _member(content, field, _TYPE), 0)
        if width and struct.unpack_from("<i", content, width)[0] == 128:
            content[code] = _FIXED_BINARY
            struct.pack_into("<i", content, width, 16)
            return True
    return any(found)


def _table(content: bytearray, at: int) -> int:
    found: int = at + struct.unpack_from("<I", content, at)[0]
    return found


def _place(content: bytearray, table: int, member: int) -> int:
    """Return where a member of a table is; 0 if it has none."""
    layout = table - struct.unpack_from("<i", content, table)[0]
    at = 4 + 2 * member
    if at >= struct.unpack_from("<H", content, layout)[0]:
        return 0
    offset: int = struct.unpack_from("<H", content, layout + at)[0]
    return table + offset if offset else 0


def _member(content: bytearray, table: int, member: int) -> int:
    """Return where the table, text or vector is that a member refers to."""
    if not (at := _place(content, table, member)):
        raise ValueError("a member is missing")
    return _table(content, at)


def _vector(content: bytearray, table: int, member: int) -> Iterator[int]:
    """Yield the tables in a vector."""
    if at := _place(content, table, member):
        start = _table(content, at)
        for one in range(struct.unpack_from("<I", content, start)[0]):
            yield _table(content, start + 4 + 4 * one)


def _text(content: bytearray, at: int) -> str:
    size = struct.unpack_from("<I", content, at)[0]
    return content[at + 4 : at + 4 + size].decode()

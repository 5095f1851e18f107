"""What a file is by its first bytes, for messages about a file that is not what its name or the
config says. Pure.

Only bytes that no text begins with count: a CSV file may begin with the letters ORC or PAR1.
"""

import re
from typing import Final

HTML: Final = "a page of HTML, as servers return in place of a file"

_KINDS: Final = {
    rb"\x1f\x8b": "gzip",
    rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18": "zstd",
    rb"\xfd7zXZ\0": "xz",
    rb"BZh[1-9]1AY&SY": "bzip2",
    rb"\x04\x22\x4d\x18": "LZ4",
    rb"\xff\x06\0\0sNaPpY": "snappy",
    rb"PK\x03\x04": "a ZIP archive, such as a workbook of Excel",
    rb"PAR1[\0-\x1f]": "Parquet",
    rb"PARE[\0-\x1f]": "encrypted Parquet",
    rb"ARROW1\0\0": "an Arrow IPC file",
    rb"\xff\xff\xff\xff": "an Arrow IPC stream",
    rb"FEA1\0": "Feather version 1",
    rb"ORC\s?[\0-\x08\x0e-\x1f]": "ORC",
    rb"Obj\x01": "Avro",
    rb"VTXF": "Vortex",
    rb"\x89HDF\r\n\x1a\n": "HDF5",
    rb"\x93NUMPY": "an array of NumPy",
    rb"SQLite format 3\0": "a database of SQLite",
    rb"\xff\xfe|\xfe\xff": "text in UTF-16",
    rb"(?i:(?:\xef\xbb\xbf)?\s*<(?:!doctype h|html))": HTML,
}
_BEGINS: Final = re.compile(b"|".join(b"(%b)" % pattern for pattern in _KINDS))
_NAMES: Final = tuple(_KINDS.values())

HEAD: Final = 16
"""Bytes of a file that are enough."""


def kind_of(head: bytes) -> str:
    """Return what a file is whose first bytes these are; empty for text and what is not known."""
    found = _BEGINS.match(head)
    return _NAMES[found.lastindex - 1] if found and found.lastindex else ""


def as_kind(head: bytes, *, expected: str) -> str:
    """Return the rest of a sentence about a file that cannot be read as what it should be; empty if
    that is what it is."""
    kind = kind_of(head)
    return f"; it is {kind}" if kind not in ("", expected) else ""

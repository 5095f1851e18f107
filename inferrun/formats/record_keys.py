"""Digests of records, by which equal ones are found. Pure."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from inferrun.plugins import JsonRecords, Records

KEY_BYTES: Final = 32


def key_of(content: bytes) -> bytes:
    """Return the digest of a request or a record."""
    return blake2b(content, digest_size=KEY_BYTES).digest()


def record_keys(records: Records) -> Sequence[bytes | None]:
    """Return the digest of each record, as it is written: numbers that are spelled differently
    differ. None for one with a value that JSON does not have."""
    if isinstance(records, JsonRecords):
        return list(map(key_of, records.texts))
    from inferrun.formats.columns import members_of  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

    texts, errors = members_of(records.table)
    return [None if at in errors else key_of(text) for at, text in enumerate(texts)]

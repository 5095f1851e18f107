"""Encrypts what Temporal stores: arguments, results, memos, summaries and failures, with AES-GCM.
Off by default.

The keys are the files of a folder, normally a mounted Secret: the name of a file is the id of a
key, its content 32 random bytes in base64. The file `active` contains the id of the key that
encrypts; all of them decrypt. The folder is read again while the program runs, so keys are rotated
without a restart: add the new key, name it in `active`, and remove the old one once Temporal has no
history that uses it.

A payload that is not encrypted is passed on as it is: histories from before, and programs that do
not encrypt.
"""

import base64
import binascii
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

ENCODING: Final = b"binary/encrypted"
KEY_ID: Final = "encryption-key-id"
"""These two are the names in Temporal's own samples, which other programs know."""

ACTIVE: Final = "active"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
REREAD_SECONDS: Final = 10.0

_ID: Final = re.compile(r"[A-Za-z0-9][-._A-Za-z0-9]{0,62}", re.ASCII)


class InvalidKeys(ValueError):
    """The folder of keys cannot be used; the message has no part of a key."""


class CannotDecrypt(RuntimeError):
    """A payload was encrypted with a key that is missing, or it was changed."""


@dataclass(frozen=True)
class Keys:
    """The keys at one time, by id."""

    active: str
    by_id: dict[str, bytes]

    @classmethod
    def read(cls, folder: Path) -> "Keys":
        """The keys in the folder. Raises InvalidKeys with the name of the file; someone may have
        put a key into any of them."""
        try:
            files = {
                path.name: path.read_bytes().strip() for path in folder.iterdir() if path.is_file()
            }
        except OSError as error:
            raise InvalidKeys(f"{folder}: {os.strerror(error.errno or 0)}") from error
        active = files.pop(ACTIVE, b"").decode(errors="replace")
        keys = {
            name: _key(folder / name, text) for name, text in files.items() if _ID.fullmatch(name)
        }
        if active not in keys:
            problem = (
                f"names no key in that folder, which has {len(keys)}"
                if active
                else "is missing or empty"
            )
            raise InvalidKeys(
                f"{folder / ACTIVE} {problem}; it must contain the name of the key to encrypt with"
            )
        return cls(active, keys)


def _key(path: Path, text: bytes) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InvalidKeys(
            f"{path} is not base64; create it with: openssl rand -base64 {KEY_BYTES}"
        ) from error
    if len(key) != KEY_BYTES:
        raise InvalidKeys(
            f"{path} has {len(key)} bytes; create it with: openssl rand -base64 {KEY_BYTES}"
        )
    return key


class EncryptionCodec(PayloadCodec):
    """One instance for each client. Raises InvalidKeys if the folder cannot be used at first; later
    it keeps the last keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keys = Keys.read(folder)
        self._read_at = time.monotonic()

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each payload with the active key."""
        keys, sealed = self._current(), []
        key_id = keys.active.encode()
        for payload in payloads:
            nonce = os.urandom(NONCE_BYTES)
            data = AESGCM(keys.by_id[keys.active]).encrypt(
                nonce, payload.SerializeToString(), key_id
            )
            sealed.append(
                Payload(metadata={"encoding": ENCODING, KEY_ID: key_id}, data=nonce + data)
            )
        return sealed

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt those that are encrypted. Raises CannotDecrypt."""
        return [self._decrypted(payload) for payload in payloads]

    def _decrypted(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        key_id = payload.metadata.get(KEY_ID, b"").decode(errors="replace")
        key = self._current(needs=key_id).by_id.get(key_id)
        if key is None:
            text = (
                f"a payload is encrypted with key {key_id[:64]!r}, which is not in {self._folder}"
            )
            raise CannotDecrypt(f"{text}; add it there again")
        nonce, sealed = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
        try:
            return Payload.FromString(AESGCM(key).decrypt(nonce, sealed, key_id.encode()))
        except (InvalidTag, ValueError) as error:
            text = f"a payload that is encrypted with key {key_id[:64]!r} was changed or damaged"
            raise CannotDecrypt(text) from error

    def _current(self, *, needs: str = "") -> Keys:
        is_due = time.monotonic() - self._read_at >= REREAD_SECONDS
        if is_due or (needs and needs not in self._keys.by_id):
            self._read_at = time.monotonic()
            # a Secret may be updated file by file; the next read finds it complete
            with suppress(InvalidKeys):
                self._keys = Keys.read(self._folder)
        return self._keys

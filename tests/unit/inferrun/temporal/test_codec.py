"""Payloads are encrypted with the active key and decrypted with any key of the folder."""

import base64
import os
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload

from inferrun.temporal.codec import CannotDecrypt, EncryptionCodec, InvalidKeys, Keys

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'{"day": "2026-11-21"}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(base64.b64encode(os.urandom(32)))
    (tmp_path / "active").write_text("old\n")
    (tmp_path / "..data").mkdir()  # as in a mounted Secret
    return tmp_path


async def test_a_payload_is_restored_and_nothing_of_it_can_be_read(folder: Path) -> None:
    codec = EncryptionCodec(folder)
    [sealed] = await codec.encode([PLAIN])
    assert sealed.metadata["encryption-key-id"] == b"old"
    assert b"day" not in sealed.SerializeToString()
    assert await codec.decode([sealed]) == [PLAIN]


async def test_equal_payloads_look_different(folder: Path) -> None:
    first, second = await EncryptionCodec(folder).encode([PLAIN, PLAIN])
    assert first.data != second.data


async def test_what_an_earlier_key_encrypted_can_still_be_read(folder: Path) -> None:
    [sealed] = await EncryptionCodec(folder).encode([PLAIN])
    (folder / "active").write_text("new")
    codec = EncryptionCodec(folder)
    [again] = await codec.encode([PLAIN])
    assert again.metadata["encryption-key-id"] == b"new"
    assert await codec.decode([sealed, again, PLAIN]) == [PLAIN, PLAIN, PLAIN]


async def test_a_key_that_was_added_while_the_program_runs_is_found_when_it_is_needed(
    folder: Path,
) -> None:
    codec = EncryptionCodec(folder)
    (folder / "newest").write_bytes(base64.b64encode(os.urandom(32)))
    (folder / "active").write_text("newest")
    [sealed] = await EncryptionCodec(folder).encode([PLAIN])
    assert await codec.decode([sealed]) == [PLAIN]


async def test_a_folder_that_becomes_invalid_leaves_the_last_keys_in_effect(folder: Path) -> None:
    codec = EncryptionCodec(folder)
    (folder / "active").write_text("missing")
    foreign = Payload(
        metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"missing"}, data=b"x" * 40
    )
    with pytest.raises(CannotDecrypt, match="'missing'"):
        await codec.decode([foreign])
    assert [item.metadata["encryption-key-id"] for item in await codec.encode([PLAIN])] == [b"old"]


@pytest.mark.parametrize("part", ["data", "key id", "short"])
async def test_a_payload_that_was_changed_is_rejected(folder: Path, part: str) -> None:
    codec = EncryptionCodec(folder)
    [sealed] = await codec.encode([PLAIN])
    if part == "data":
        sealed.data = sealed.data[:-1] + bytes([sealed.data[-1] ^ 1])
    elif part == "short":
        sealed.data = b"x"
    else:
        sealed.metadata["encryption-key-id"] = b"new"
    with pytest.raises(CannotDecrypt, match="changed or damaged"):
        await codec.decode([sealed])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "active",
            "missing",
            "names no key in that folder, which has 2; it must contain the name of the key",
        ),
        ("active", base64.b64encode(b"short-and-secret").decode(), "names no key in that folder"),
        ("active", "", "is missing or empty; it must contain the name of the key"),
        ("old", "not base64!", "is not base64"),
        ("old", base64.b64encode(b"short-and-secret").decode(), "has 16 bytes"),
    ],
)
def test_invalid_keys_are_reported_with_the_file_and_without_their_content(
    folder: Path, name: str, content: str, words: str
) -> None:
    (folder / name).write_text(content)
    with pytest.raises(InvalidKeys, match=words) as failure:
        Keys.read(folder)
    assert name in str(failure.value)
    assert "short-and-secret" not in str(failure.value)
    assert base64.b64encode(b"short-and-secret").decode() not in str(failure.value)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidKeys, match="No such file or directory"):
        Keys.read(tmp_path / "absent")

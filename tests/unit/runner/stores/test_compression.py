"""Compressed input files."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from inferrun.plugins import InputError
from inferrun_runner.stores.compression import decompressed
from inferrun_runner.stores.file.local_files import MemoryFile
from tests.unit.runner.stores.contexts import context_of

TEXT = b"".join(b"[%d, 2.5]\n" % index for index in range(5000))


def zstd(content: bytes) -> bytes:
    compressed: bytes = pyarrow.Codec("zstd").compress(content, asbytes=True)
    return compressed


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstd}


@pytest.fixture(params=COMPRESSIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(kind: str, content: bytes, folder: Path, *, spool_bytes: int = 1 << 20) -> bytes:
    context = context_of(folder, spool_bytes=spool_bytes)
    with decompressed(
        [MemoryFile(f"rows.jsonl.{kind}", content)], context, suffixes=(".jsonl",)
    ) as (file,):
        assert file.name == f"rows.jsonl.{kind}"
        with file.open() as source:
            found = source.read()
        assert file.size == len(found)
    assert list(folder.iterdir()) == []
    return found


def test_several_compressed_parts_are_one_file(kind: str, tmp_path: Path) -> None:
    compress = COMPRESSIONS[kind]
    assert read(kind, compress(TEXT[:1000]) + compress(TEXT[1000:]), tmp_path) == TEXT


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-5], lambda text: text[: len(text) // 2], lambda _: b"[1.0]\n"]
)
def test_a_damaged_file_is_an_input_error(
    kind: str, damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"rows\.jsonl\.\w+ is not a complete \w+ file"):
        read(kind, damage(COMPRESSIONS[kind](TEXT)), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("outer", ["gzip", "zstd"])
@pytest.mark.parametrize("inner", ["gzip", "zstd"])
def test_compressions_within_each_other_are_removed(inner: str, outer: str, tmp_path: Path) -> None:
    compress: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd}
    stored = MemoryFile("rows.jsonl", compress[outer](compress[inner](TEXT)))
    opened = decompressed(
        [stored],
        context_of(tmp_path),
        suffixes=(".jsonl",),
        encoding_of=lambda _: f"{inner}, {outer}",
    )
    with opened as (file,), file.open() as source:
        assert source.read() == TEXT


def test_a_wrong_encoding_is_corrected_and_not_the_name(tmp_path: Path) -> None:
    stored = MemoryFile("rows.jsonl", TEXT)
    with (
        decompressed(
            [stored], context_of(tmp_path), suffixes=(".jsonl",), encoding_of=lambda _: "gzip"
        ) as (file,),
        pytest.raises(InputError, match="it is not compressed, so correct its Content-Encoding"),
    ):
        file.open()


def test_a_bomb_is_stopped_at_the_limit(kind: str, tmp_path: Path) -> None:
    bomb = COMPRESSIONS[kind](bytes(1 << 24))
    assert len(bomb) < 1 << 17
    with pytest.raises(InputError, match="more than 1048576 bytes") as raised:
        read(kind, bomb, tmp_path)
    assert not raised.value.is_retryable
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_compressed_is_not_copied(tmp_path: Path) -> None:
    file = MemoryFile("rows.jsonl", TEXT)
    with decompressed([file], context_of(tmp_path), suffixes=(".jsonl",)) as files:
        assert files == [file]


def test_a_file_that_is_not_read_is_not_decompressed(tmp_path: Path) -> None:
    with decompressed(
        [MemoryFile("rows.jsonl.gz", b"damaged")], context_of(tmp_path), suffixes=(".jsonl",)
    ):
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_limit_is_that_of_all_files_together(kind: str, tmp_path: Path) -> None:
    files = [MemoryFile(f"{name}.jsonl.{kind}", COMPRESSIONS[kind](bytes(700))) for name in "ab"]
    with decompressed(files, context_of(tmp_path, spool_bytes=1024), suffixes=(".jsonl",)) as (
        first,
        second,
    ):
        assert first.size == 700
        with pytest.raises(
            InputError, match=r"b\.jsonl\.\w+: the decompressed input has more than 1024 bytes"
        ):
            second.open()

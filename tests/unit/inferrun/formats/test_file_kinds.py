"""What a file is by its first bytes."""

import bz2
import gzip
import lzma
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pyarrow
import pytest
from pyarrow import feather, ipc, orc, parquet

from inferrun.formats.csv.format import CSV
from inferrun.formats.file_kinds import HEAD, kind_of
from inferrun.formats.json_array import JSON_ARRAY
from inferrun.formats.jsonl.format import JSONL
from inferrun.formats.openai import OPENAI
from inferrun.formats.parquet.format import PARQUET
from inferrun.plugins import InputError, Limits, RecordFormat
from tests.unit.runner.batches import file_of

TABLE = pyarrow.table({"x": [1.5, 2.5]})
TEXT = b'{"x": 1.5}\n' * 100


def written() -> Iterator[tuple[str, bytes]]:
    yield "gzip", gzip.compress(TEXT)
    yield "xz", lzma.compress(TEXT)
    yield "bzip2", bz2.compress(TEXT)
    for name, codec in (("zstd", "zstd"), ("LZ4", "lz4")):
        out = BytesIO()
        with closing(
            pyarrow.CompressedOutputStream(pyarrow.PythonFile(out, mode="w"), codec)
        ) as stream:
            stream.write(TEXT)
            stream.flush()
            yield name, out.getvalue()
    for name, write in (
        ("Parquet", parquet.write_table),
        ("an Arrow IPC file", feather.write_feather),
    ):
        out = BytesIO()
        write(TABLE, out)
        yield name, out.getvalue()
    out = BytesIO()
    orc.write_table(TABLE, out)
    yield "ORC", out.getvalue()
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, TABLE.schema) as stream:
        stream.write_table(TABLE)
    yield "an Arrow IPC stream", sink.getvalue().to_pybytes()
    yield "text in UTF-16", TEXT.decode().encode("utf-16")


PAGES = (
    b"<!DOCTYPE html>\n<title>Sign in</title>",
    b"<html><body>503</body></html>",
    b"\xef\xbb\xbf\n<!doctype HTML>",
)


@pytest.mark.parametrize("content", PAGES)
@pytest.mark.parametrize(
    "record_format", [JSONL, JSON_ARRAY, CSV, OPENAI, PARQUET], ids=lambda one: type(one).__name__
)
def test_a_page_of_html_in_place_of_a_file_is_named(
    content: bytes, record_format: RecordFormat, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content + b" " * 200)
    with pytest.raises(
        InputError, match=r"rows\.jsonl .*is a page of HTML, as servers return in place of a file"
    ) as found:
        list(record_format.plan(file_of(path), chunk_bytes=1 << 20, limits=Limits()))
    assert not found.value.is_retryable


@pytest.mark.parametrize(
    ("kind", "content"), list(written()), ids=lambda one: one if isinstance(one, str) else ""
)
@pytest.mark.parametrize(
    "record_format", [JSONL, JSON_ARRAY, CSV, OPENAI], ids=lambda one: type(one).__name__
)
def test_a_file_that_is_no_text_is_named(
    kind: str, content: bytes, record_format: RecordFormat, tmp_path: Path
) -> None:
    assert kind_of(content[:HEAD]) == kind
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=f"rows\\.jsonl .*is {kind}, which this format does not read"
    ):
        list(record_format.plan(file_of(path), chunk_bytes=1 << 20, limits=Limits()))


@pytest.mark.parametrize(
    "text",
    ["ORCID,x\n", "ORC\n1\n", "PAR1,PAR2\n1,2\n", "BZh9,x\n", "PK,x\n", "Obj,x\n", "", "\ufeffx"],
)
def test_text_is_of_no_such_kind(text: str) -> None:
    assert kind_of(text.encode()) == ""


def test_a_table_of_another_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    feather.write_feather(TABLE, path)
    with pytest.raises(
        InputError,
        match=r"rows\.parquet cannot be read as Parquet: ArrowInvalid; it is an Arrow IPC file",
    ):
        PARQUET.schema(file_of(path))


def test_a_damaged_table_is_not_called_what_it_should_be(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(TABLE, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read as Parquet: ArrowInvalid$"):
        PARQUET.schema(file_of(path))

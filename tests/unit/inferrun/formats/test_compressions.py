"""Which compressions a name and a Content-Encoding state."""

import pytest

from inferrun.formats.compressions import compressions_of


@pytest.mark.parametrize(
    ("name", "encoding", "is_named", "found"),
    [
        ("rows.jsonl", "", True, ()),
        ("rows.jsonl.gz", "", True, ("gzip",)),
        ("photo.gz", "", False, ()),
        ("rows.jsonl", "gzip", True, ("gzip",)),
        ("rows.jsonl", " X-GZIP ", True, ("gzip",)),
        ("photo.png", "gzip", False, ("gzip",)),
        ("rows.jsonl.gz", "gzip", True, ("gzip",)),
        ("scan.nii.gz", "gzip", False, ()),
        ("rows.jsonl.zst", "gzip", True, ("gzip", "zstd")),
        ("rows.jsonl", "zstd, gzip", True, ("gzip", "zstd")),
        ("rows.jsonl", "aws-chunked,gzip", True, ("gzip",)),
        ("rows.jsonl", "identity", True, ()),
        ("photo.png", "base64", False, ()),
        ("rows.jsonl", "UTF-8", True, ()),
    ],
)
def test_each_compression_is_removed_once(
    name: str, encoding: str, *, is_named: bool, found: tuple[str, ...]
) -> None:
    assert compressions_of(name, encoding, is_named=is_named) == found


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("br", "br"), ("deflate", "deflate"), ("gzip, br", "br"), ("<b>\x1b[31m", "of another kind")],
)
def test_an_unknown_encoding_is_named(encoding: str, shown: str) -> None:
    with pytest.raises(
        ValueError, match=f"Content-Encoding {shown}; only gzip and zstd are decompressed"
    ):
        compressions_of("rows.jsonl", encoding, is_named=True)

"""How a stored file is compressed, by its name and by the Content-Encoding that is stored with it.
Pure."""

import re
from typing import Final

from inferrun.plugins import InputError

_EXTENSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
_ENCODINGS: Final = {"gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}
_UNCOMPRESSED: Final = frozenset(
    {
        "",
        "identity",
        "aws-chunked",
        "none",
        "binary",
        "base64",
        "7bit",
        "8bit",
        "utf-8",
        "utf8",
        "ascii",
        "us-ascii",
    }
)
"""Encodings of an upload and of a text, which many programs store as Content-Encoding. The content
is as it was given."""

_SHOWN: Final = re.compile(r"[a-z0-9-]{1,20}")
"""What messages show of an encoding, which a server says."""

COMPRESSED: Final = tuple(_EXTENSIONS)
"""The extensions of compressions, which may follow that of a format."""


class NotDecompressed(InputError):
    """A file cannot be decompressed: it is damaged, or its Content-Encoding is not supported."""

    def __init__(self, text: str) -> None:
        super().__init__(text, is_retryable=False)


def compressions_of(name: str, encoding: str, *, is_named: bool) -> tuple[str, ...]:
    """Return the compressions to remove from a file, the outermost first: gzip or zstd.

    `is_named`: an extension such as .gz is one, otherwise it is part of the content. One that both
    the name and Content-Encoding state is one: `aws s3 cp --content-encoding gzip` and `gsutil`
    store rows.jsonl.gz as it is. Raises ValueError for an encoding that cannot be removed.
    """
    found = [
        one for text in encoding.lower().split(",") if (one := text.strip()) not in _UNCOMPRESSED
    ]
    if unknown := next((one for one in found if one not in _ENCODINGS), ""):
        shown = unknown if _SHOWN.fullmatch(unknown) else "of another kind"
        raise ValueError(f"Content-Encoding {shown}; only gzip and zstd are decompressed")
    named = next((kind for extension, kind in _EXTENSIONS.items() if name.endswith(extension)), "")
    stored = [_ENCODINGS[one] for one in reversed(found)]
    if named in stored:
        stored.remove(named)
    return (*stored, named) if named and is_named else tuple(stored)

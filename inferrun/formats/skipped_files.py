"""What is not read of a folder, and why: which names are, and how the others are listed and
described. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from inferrun.formats.compressions import COMPRESSED
from inferrun.plugins import Skipped
from inferrun.text import one_line

_OTHER_COMPRESSED: Final = frozenset(
    {".br", ".bz2", ".deflate", ".lz4", ".lzo", ".snappy", ".xz", ".z", ".zip"}
)
"""The extensions of compressions that are not read."""

OTHER_EXTENSION: Final = "OtherExtension"
OTHER_CASE: Final = "OtherCase"
NESTED_FOLDER: Final = "NestedFolder"
HIDDEN: Final = "Hidden"
EMPTY: Final = "Empty"
NO_RECORDS: Final = "NoRecords"

_TEXTS: Final = {
    OTHER_EXTENSION: "other extension",
    OTHER_CASE: "extension in another case",
    NESTED_FOLDER: "nested folder",
    HIDDEN: "hidden",
    EMPTY: "empty",
    NO_RECORDS: "without records",
}
"""The reasons, in the order in which they are listed."""

_NAMES_LISTED: Final = 20
_NAMES_SHOWN: Final = 3
_CHARACTERS: Final = 60
"""The characters of a name; the termination message has a limit."""


def why_skipped(name: str, *, suffixes: Sequence[str]) -> str:
    """Return why a file is not read; empty if it is. No extensions: every file is."""
    if not suffixes or _has_suffix(name, suffixes):
        return ""
    return OTHER_CASE if _has_suffix(name.lower(), suffixes) else OTHER_EXTENSION


def _has_suffix(name: str, suffixes: Sequence[str]) -> bool:
    return name.endswith(
        tuple(f"{suffix}{one}" for suffix in suffixes for one in ("", *COMPRESSED))
    )


def extension_of(name: str) -> str | None:
    """Return the extension before that of a compression, empty without one; None for a compression
    that is not read."""
    name = name.rpartition("/")[2].lower()
    for compressed in COMPRESSED:
        name = name.removesuffix(compressed)
    extension = "".join(name.rpartition(".")[1:]) if "." in name else ""
    return None if extension in _OTHER_COMPRESSED else extension


def listed(reasons: Mapping[str, str]) -> tuple[Skipped, ...]:
    """List what is skipped, given the reason for each name; empty if it is read."""
    found: list[Skipped] = []
    for reason in _TEXTS:
        if names := sorted(name for name, why in reasons.items() if why == reason):
            first = tuple(one_line(name, limit=_CHARACTERS) for name in names[:_NAMES_LISTED])
            found.append(Skipped(reason, len(names), first))
    return tuple(found)


def describe(skipped: Iterable[Skipped]) -> str:
    """Describe what is skipped for the run's status; empty if nothing is."""
    texts = []
    for one in skipped:
        names = [*one.names[:_NAMES_SHOWN], *(["…"] if one.count > _NAMES_SHOWN else [])]
        texts.append(f"{_TEXTS.get(one.reason, one.reason)} {one.count} ({', '.join(names)})")
    return f"not read: {', '.join(texts)}" if texts else ""

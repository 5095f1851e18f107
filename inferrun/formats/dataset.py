"""Which files of a place are the input: by a path, a folder with partitions or a pattern. Pure.

A folder is read with those of its nested folders whose names are `key=value`; a pattern reads what
it matches. Names are relative to the folder, or to the part of the path before the first part with
a wildcard.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final
from urllib.parse import unquote

from inferrun.formats.partitions import PartitionValue
from inferrun.formats.skipped_files import (
    EMPTY,
    HIDDEN,
    NESTED_FOLDER,
    OTHER_CASE,
    OTHER_EXTENSION,
    extension_of,
    listed,
    why_skipped,
)
from inferrun.plugins import InputError, PlannedObject, Skipped
from inferrun.suggestions import did_you_mean

MAX_OBJECTS: Final = 200_000
"""They are listed in run.json, which every attempt reads."""

_WILD: Final = re.compile(r"[*?]")
_MISSING: Final = "__HIVE_DEFAULT_PARTITION__"
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

_LOGS: Final = {
    "_delta_log": "a Delta table (use the label delta)",
    ".hoodie": "a Hudi table",
    ".hoodie_partition_metadata": "a partition of a Hudi table",
    "_spark_metadata": "the output of a Spark stream",
}
"""What says, beside files, which of them count: the others were replaced, deleted or never
committed."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file or object, as listed."""

    name: str
    size: int

    tag: str = ""
    """Differs if the content does; empty if the place has no such thing."""


def quoted_tag(tag: str | None) -> str:
    """An object's ETag as it is in headers: some servers list it without quotes."""
    return f'"{tag}"' if tag and not tag.endswith('"') else tag or ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """What is read and what is not."""

    objects: tuple[PlannedObject, ...]
    skipped: tuple[Skipped, ...] = ()

    def checked(
        self, *, suffixes: Sequence[str], allow_empty: bool, where: str, contents: str
    ) -> "Dataset":
        """Return this unless nothing is read, not even an empty file, and something must be. Raises
        InputError.

        `where`: the field, and the subject of a sentence; `contents`: what is there instead.
        """
        if self.objects or allow_empty or any(one.reason == EMPTY for one in self.skipped):
            return self
        kinds = " or ".join(f"*{suffix}" for suffix in suffixes or ("",))
        is_mixed = any(one.reason == OTHER_EXTENSION for one in self.skipped)
        hint = (
            "; to read files with another extension, set format, and a pattern such as *.txt"
            if is_mixed
            else ""
        )
        raise InputError(f"{where} no {kinds} file; it {contents}{hint}")


def dataset_of(one: PlannedObject) -> Dataset:
    """Return one file, which is not read if it is empty."""
    return Dataset((one,)) if one.size else Dataset((), listed({one.name: EMPTY}))


def split_pattern(path: str) -> tuple[str, str]:
    """Return the folder and the pattern of a path; the pattern is empty if the path has no
    wildcard."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts) if _WILD.search(part)), None)
    return (path, "") if at is None else ("/".join(parts[:at]), "/".join(parts[at:]))


def find(
    files: Iterable[ListedFile],
    *,
    pattern: str,
    suffixes: Sequence[str],
    field: str,
    is_stated: bool = False,
) -> Dataset:
    """Return which files of a folder are read, sorted by name.

    If the format is stated and no file has one of its extensions, those of the only other extension
    are read, or those without one: Spark writes JSON lines to `part-….json`, and Hive, Athena and
    Firehose write all formats to names such as `000000_0`.

    Raises InputError with the field if they are too many, or if what is read depends on a log that
    is not read.
    """
    matches = _matcher(pattern)
    below = [one for one in files if matches(one.name)]
    folders = {one.name[: at.start()] for one in below for at in re.finditer("/", one.name)}
    # others stand for a folder
    below = [one for one in below if one.size or one.name not in folders]
    skipped = [_why_skipped(one, is_folder=not pattern, suffixes=suffixes) for one in below]
    if is_stated and all(why for _, why in skipped):
        others = {
            extension_of(name) for name, why in skipped if why in (OTHER_EXTENSION, OTHER_CASE)
        }
        if len(others) == 1 and None not in others:
            skipped = [_why_skipped(one, is_folder=not pattern, suffixes=()) for one in below]
    reasons: dict[str, str] = {}
    found: list[PlannedObject] = []
    for one, (name, why) in zip(below, skipped, strict=True):
        if (
            why == HIDDEN
            and suffixes
            and not pattern
            and (kind := _LOGS.get(name.rpartition("/")[2]))
        ):
            text = f"{field}: the folder is {kind}, whose log {name} says which files count; a pattern such as *{suffixes[0]}"
            raise InputError(
                f"{text} reads all that are there, also what was replaced", is_retryable=False
            )
        if why:
            reasons[name.encode(errors="surrogateescape").decode(errors="backslashreplace")] = why
        else:
            found.append(
                PlannedObject(one.name, one.size, one.tag, _partition_of(one.name, field=field))
            )
    if len(found) > MAX_OBJECTS:
        text = f"{field}: it has {len(found)} files, at most {MAX_OBJECTS} can be read by a run; use a narrower path"
        raise InputError(text, is_retryable=False)
    return Dataset(tuple(sorted(found, key=lambda one: one.name)), listed(reasons))


def _why_skipped(one: ListedFile, *, is_folder: bool, suffixes: Sequence[str]) -> tuple[str, str]:
    """Return the name of the file, or of the folder that is not read, and the reason; empty if it
    is read."""
    parts = one.name.split("/")
    for at, part in enumerate(parts):
        name = "/".join(parts[: at + 1])
        if part.startswith((".", "_")):
            return name, HIDDEN
        if is_folder and at < len(parts) - 1 and not part.partition("=")[1]:
            return name, NESTED_FOLDER
    return one.name, why_skipped(one.name, suffixes=suffixes) or ("" if one.size else EMPTY)


def _matcher(pattern: str) -> Callable[[str], bool]:
    if not pattern:
        return lambda _name: True
    text = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
    text = text.replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    compiled = re.compile(text, re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def _partition_of(name: str, *, field: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in name.split("/")[:-1]:
        key, is_partition, value = part.partition("=")
        if not is_partition:
            continue
        if key in found:
            raise InputError(
                f"{field}: {name} has two values of the column {key!r} in its path",
                is_retryable=False,
            )
        found[unquote(key)] = None if value == _MISSING else unquote(value)
    return found


def partition_folder(name: str) -> str:
    """Return the folders `key=value` in the name of a file, as they are written, each with a
    "/"."""
    return "".join(f"{part}/" for part in name.split("/")[:-1] if "=" in part)


def partitions_of(
    objects: Sequence[PlannedObject], declared: Mapping[str, str]
) -> list[dict[str, PartitionValue]]:
    """Return the columns that the paths of objects have. Their types are declared, or follow from
    all values."""
    names = dict.fromkeys(name for one in objects for name in one.partition)
    if objects and (unknown := next((name for name in declared if name not in names), "")):
        text = f"partitions.{unknown}: the path of no file has {unknown}=…{did_you_mean(unknown, names)}"
        raise InputError(text, is_retryable=False)
    types = {
        name: declared.get(name) or _type_of([one.partition.get(name) for one in objects])
        for name in names
    }
    return [
        {name: PartitionValue(one.partition.get(name), kind) for name, kind in types.items()}
        for one in objects
    ]


def _type_of(values: Sequence[str | None]) -> str:
    given = [value for value in values if value is not None]
    if given and all(_INTEGER.fullmatch(value) for value in given):
        return "int64"
    return "date32" if given and all(_is_date(value) for value in given) else "string"


def _is_date(value: str) -> bool:
    try:
        return bool(_DATE.fullmatch(value) and date.fromisoformat(value))
    except ValueError:
        return False

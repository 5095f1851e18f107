"""The software of others whose files or answers the tests read: a folder each, with pins, and a
program that makes them.

A writer makes `files` and what its own reader returns of them; a recorder makes `answers`, those of
a server.

Only reads these folders. `docs/contributing/interop.md` says how to add one.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

HERE: Final = Path(__file__).parent
FRESH: Final = "INFERRUN_FOREIGN"
"""The environment variable with a folder whose files the tests read in place of the committed
ones."""

EXPECTED: Final = "expected.json"
WRITERS: Final = (
    "write.py",
    "write.sh",
    "Write.java",
    "main.go",
    "write.mjs",
    "Client.java",
    "client.mjs",
)
"""Programs in the environment of a folder; those of `campaigns/interop/clients` are clients."""

RECORDER: Final = "record.py"
MADE: Final = ("files", "answers", EXPECTED)
"""What a writer or a recorder makes."""

PINS: Final = (
    "requirements.txt",
    "pom.xml",
    "go.mod",
    "go.sum",
    "package.json",
    "package-lock.json",
    "debian.txt",
)

Rows = Sequence[Mapping[str, Any]]  # Any: JSON
Readings = Mapping[str, Rows]
"""By file, below `files`, the rows that the software's own reader returns."""


@dataclass(frozen=True, slots=True)
class Software:
    """A folder of `tests/foreign`."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def writer(self) -> Path:
        """The program that writes what is made into the folder that it is called with."""
        return next(path for name in (*WRITERS, RECORDER) if (path := self.folder / name).exists())

    def has(self, name: str) -> bool:
        """Whether the folder has this file."""
        return (self.folder / name).exists()

    @property
    def version(self) -> str:
        """The pins that share a word with the folder's name, as pyspark and delta-spark do;
        otherwise the first three."""
        pins = _pins(self.folder)
        words = self.name.split("-")
        named = [pin for pin in pins if any(word in pin.lower() for word in words)]
        return ", ".join(named or pins[:3])


def all_software() -> list[Software]:
    """All folders that have a writer or a recorder."""
    found = (Software(folder) for folder in sorted(HERE.iterdir()) if folder.is_dir())
    return [one for one in found if any(one.has(name) for name in (*WRITERS, RECORDER))]


def root() -> Path:
    """The folder whose files the tests read: the committed ones, or those that `python -m
    tests.foreign` has just had written."""
    return Path(os.environ.get(FRESH) or HERE)


def files_of(name: str) -> Path:
    """The folder with the files that a software wrote."""
    return root() / name / "files"


def readings_of(name: str) -> Readings:
    """The rows that the software's own reader returns, by file."""
    return readings_in(root() / name)


def readings_in(folder: Path) -> Readings:
    """The rows in the `expected.json` of a folder."""
    found: Readings = json.loads((folder / EXPECTED).read_text())
    return found


def _pins(folder: Path) -> list[str]:
    """What a folder pins directly, each as `name version`."""
    pins = list[str]()
    if (path := folder / "requirements.txt").exists():
        pins += [
            f"{name} {version}"
            for name, version in re.findall(
                r"(?m)^([\w.-]+)(?:\[.*\])?==([^\s;\\]+)", path.read_text()
            )
        ]
    if (path := folder / "pom.xml").exists():
        # The file is ours.
        tree = ElementTree.parse(path)  # noqa: S314
        pins += [
            f"{one.findtext('{*}artifactId')} {one.findtext('{*}version')}"
            for one in tree.iterfind("{*}dependencies/{*}dependency")
        ]
    if (path := folder / "go.mod").exists():
        required = re.findall(r"(?m)^(?:require )?\t?(\S+\.\S+/\S+ v\S+)$", path.read_text())
        # Go's own packages need no other
        pins += required or re.findall(r"(?m)^go \S+$", path.read_text())
    if (path := folder / "package.json").exists():
        pins += [
            f"{name} {version}"
            for name, version in json.loads(path.read_text())["dependencies"].items()
        ]
    if (path := folder / "debian.txt").exists():
        pins += path.read_text().split()
    return pins

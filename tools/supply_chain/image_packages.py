"""The packages in an image archive: Python distributions and Debian packages, read from their
metadata in the layers.

An archive is what `docker save` or `buildah push docker-archive:` writes: a tar file with
`manifest.json`, which lists the layers from the lowest to the highest. A later layer replaces a
file of an earlier one, or removes it with a `.wh.` entry.
"""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

DPKG_STATUS = PurePosixPath("var/lib/dpkg/status")
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"


@dataclass(frozen=True, order=True)
class Package:
    """One installed package."""

    ecosystem: str
    """`pypi` or `deb`."""

    name: str
    version: str
    license: str = ""
    """As the package states it; empty if it does not."""


def packages_in(archive: Path) -> tuple[Package, ...]:
    """The packages of the first image in an archive, sorted. Raises ValueError if the file is not
    such an archive."""
    with tarfile.open(archive) as tar:
        found = set(_packages(_metadata_files(tar)))
    if not found:
        raise ValueError(f"{archive} contains no package metadata")
    return tuple(sorted(found))


def _metadata_files(tar: tarfile.TarFile) -> dict[PurePosixPath, str]:
    """The contents of all metadata files of the image, by path."""
    contents: dict[PurePosixPath, str] = {}
    for layer in _layer_names(tar):
        member = tar.extractfile(layer)
        if member is None:
            raise ValueError(f"layer {layer} is not a file")
        with tarfile.open(fileobj=member) as files:
            _apply_layer(files, contents)
    return contents


def _layer_names(tar: tarfile.TarFile) -> list[str]:
    try:
        member = tar.extractfile("manifest.json")
    except KeyError:
        member = None
    if member is None:
        raise ValueError(
            "the archive has no manifest.json; write it with docker save or buildah push docker-archive:"
        )
    layers: list[str] = json.load(member)[0]["Layers"]
    return layers


def _apply_layer(files: tarfile.TarFile, contents: dict[PurePosixPath, str]) -> None:
    added: dict[PurePosixPath, str] = {}
    for entry in files:
        path = PurePosixPath(entry.name.removeprefix("./").lstrip("/"))
        if path.name == OPAQUE:
            _remove(contents, path.parent)
        elif path.name.startswith(WHITEOUT):
            _remove(contents, path.with_name(path.name.removeprefix(WHITEOUT)))
        elif entry.isfile() and _is_metadata(path):
            content = files.extractfile(entry)
            added[path] = content.read().decode("utf-8", errors="replace") if content else ""
    contents.update(added)


def _remove(contents: dict[PurePosixPath, str], removed: PurePosixPath) -> None:
    for path in [path for path in contents if path == removed or removed in path.parents]:
        del contents[path]


def _is_metadata(path: PurePosixPath) -> bool:
    is_distribution = path.name == "METADATA" and path.parent.suffix == ".dist-info"
    return is_distribution or path == DPKG_STATUS or path.parent == DPKG_STATUS.with_suffix(".d")


def _packages(contents: dict[PurePosixPath, str]) -> Iterator[Package]:
    for path, text in contents.items():
        if path.name == "METADATA":
            header = HeaderParser().parsestr(text)
            stated = header.get("License-Expression") or header.get("License") or ""
            yield Package(
                "pypi", header["Name"], header["Version"], stated.splitlines()[0] if stated else ""
            )
        else:
            yield from _debian_packages(text)


def _debian_packages(status: str) -> Iterator[Package]:
    for paragraph in status.split("\n\n"):
        header = HeaderParser().parsestr(paragraph)
        if header["Package"] and header["Version"] and "deinstall" not in (header["Status"] or ""):
            yield Package("deb", header["Package"], header["Version"])

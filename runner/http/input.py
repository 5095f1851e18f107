"""The input store `http`: one file on a web server.

If the server supports ranges and identifies the content by a strong ETag, the file is read in ranges where it is needed, and ETag
and size are its fingerprint. Otherwise each Pod spools the file to its disk, and the fingerprint is a hash of the content.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from inferrun.plugins import InputError, InputFile, Limits, Source, StorageObject, StoreContext
from runner.compression import decompressed
from runner.connections import open_connections
from runner.file.local_files import LocalFile
from runner.file_ranges import FileRanges
from runner.http.location import Location, location_of
from runner.http.spec import read_spec
from runner.http.web_file import Version, WebFile
from runner.ranged_reader import open_ranges


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that is read in ranges."""

    web: WebFile
    name: str
    version: Version

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.version.size

    def open(self) -> BufferedReader:
        """Open the file for reading at any position."""
        return open_ranges(self._read, size=self.size)

    def _read(self, start: int, length: int) -> bytes:
        return self.web.read_range(start, length, version=self.version)


@dataclass(frozen=True, slots=True)
class _Opened:
    file: InputFile
    fingerprint: str


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `http` under `input`."""
    wanted = read_spec(spec)
    record_format = context.format_named(wanted.format, "input.http.format")
    location = location_of(wanted, context.endpoints_dir / "input")
    web = WebFile(location, await open_connections(context.limits), context.limits)
    with closing(web), tempfile.TemporaryDirectory(prefix="input-", dir=context.spool_dir) as folder:
        version = await asyncio.to_thread(web.version)
        if version is not None:
            opened = _Opened(RemoteFile(web, location.name, version), _fingerprint_of(version))
        else:
            opened = await asyncio.to_thread(_spooled, web, location, folder=Path(folder), limits=context.limits)

        def current_fingerprint() -> str:
            if version is None:
                return opened.fingerprint
            found = web.version()
            return _fingerprint_of(found) if found else ""

        with decompressed([opened.file], context.spool_dir, context.limits) as readable:
            yield FileRanges(
                readable,
                fingerprint=opened.fingerprint,
                record_format=record_format,
                limits=context.limits,
                current_fingerprint=current_fingerprint,
            )


def _fingerprint_of(version: Version) -> str:
    return "http-sha256:" + hashlib.sha256(f"{version.size}\t{version.etag}".encode()).hexdigest()


def _spooled(web: WebFile, location: Location, *, folder: Path, limits: Limits) -> _Opened:
    name = location.name.replace("\0", "").replace("/", "_")[-200:]
    path = folder / f"file-{name}"

    def spool(pieces: Iterator[bytes]) -> _Opened:
        digest, size = hashlib.sha256(), 0
        with path.open("wb") as out:
            for piece in pieces:
                size += len(piece)
                if size > limits.spool_bytes:
                    raise InputError(
                        f"input.http: {location.name} has more than {limits.spool_bytes} bytes, and its server does not support "
                        "ranges; set a larger INFERRUN_SPOOL_BYTES in the image",
                        is_retryable=False,
                    )
                digest.update(piece)
                _write(out, piece)
        return _Opened(LocalFile(folder, path.name, size), f"content-sha256:{digest.hexdigest()}")

    return web.save(spool)


def _write(out: BinaryIO, piece: bytes) -> None:
    try:
        out.write(piece)
        out.flush()
    except OSError as error:
        raise InputError(
            f"cannot spool the input to the Pod's disk: {error.strerror}; the Pod needs enough ephemeral storage for the file"
        ) from error

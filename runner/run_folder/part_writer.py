"""Writes the results of one chunk to draft files, for any store of files. Size and hash are computed while they are written."""

import hashlib
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from inferrun.plugins import NO_USAGE, Batch, ResultCounts, Results, ResultWriter, TokenUsage

_BUFFER = 1 << 18

ERRORS_DRAFT = ".errors"
"""The end of the name of a draft of errors."""


class HashedFile(io.RawIOBase):
    """A file that is created with the first byte written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        self._file: BinaryIO | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]  # what is written here
        """Append bytes."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("wb", buffering=_BUFFER)
        with memoryview(data) as view:
            self._file.write(view)
            self._digest.update(view)
            self.size += view.nbytes
            return view.nbytes

    @property
    def sha256(self) -> str:
        """The digest of what was written."""
        return self._digest.hexdigest()

    def make_durable(self) -> None:
        """Write the file to the disk and close it."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        """Close and delete the file."""
        if self._file is not None:
            with suppress(OSError):  # a full or lost volume
                self._file.close()
            with suppress(OSError):
                self.path.unlink()


@dataclass(frozen=True, slots=True)
class Draft:
    """A finished file that is not published yet."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PartDraft:
    """The finished files of a chunk, and what is in them."""

    results: Draft
    errors: Draft | None
    counts: ResultCounts
    usage: TokenUsage


class ResultFormat(Protocol):
    """How results are stored: what a record format has for them."""

    results_suffix: str

    def writer(self, out: BinaryIO, errors: BinaryIO) -> ResultWriter:
        """Return a writer of results."""
        ...


class PartWriter:
    """The files of one chunk: results, and errors if there are any."""

    def __init__(self, folder: Path, name: str, record_format: ResultFormat) -> None:
        self._results = HashedFile(folder / f"{name}{record_format.results_suffix}")
        self._errors = HashedFile(folder / f"{name}{ERRORS_DRAFT}")
        self._writer = record_format.writer(cast("BinaryIO", self._results), cast("BinaryIO", self._errors))
        self._usage = NO_USAGE

    def append_all(self, written: Sequence[tuple[Batch, Results]]) -> None:
        """Write the results of consecutive batches."""
        for batch, results in written:
            self._writer.write(batch, results)
            self._usage += results.usage

    def finish(self) -> PartDraft:
        """Complete the files and make them durable."""
        counts = self._writer.close()
        self._results.write(b"")  # an empty file is a file
        for file in (self._results, self._errors):
            file.make_durable()
        errors = _draft_of(self._errors) if self._errors.size else None
        return PartDraft(results=_draft_of(self._results), errors=errors, counts=counts, usage=self._usage)

    def discard(self) -> None:
        """Delete the files."""
        self._results.discard()
        self._errors.discard()


def _draft_of(file: HashedFile) -> Draft:
    return Draft(path=file.path, bytes=file.size, sha256=file.sha256)

"""A Source over files: divides them into byte ranges, which a record format reads.

It serves the claim of the `file` label and the files to which other stores spool their input. The files must not change during
the run; `verify` detects changes.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from inferrun.plugins import Batch, Chunk, InputError, InputPlan, Limits, RecordFormat
from inferrun.plugins.limits import KIB, MIB

_TARGET_CHUNKS = 128
_SMALLEST_CHUNK = 16 * KIB
_LARGEST_CHUNK = 4 * MIB


@dataclass(frozen=True, slots=True)
class InputFile:
    """The identity of one file; a difference means that the input has changed."""

    name: str
    size: int
    modified_ns: int = 0
    changed_ns: int = 0
    """The time of the last change of content or metadata. Unlike the modification time, no program can set it back."""


class FileRanges:
    """An input of one or more files of a folder, in the given order."""

    def __init__(
        self,
        folder: Path,
        files: Sequence[InputFile],
        *,
        fingerprint: str,
        record_format: RecordFormat,
        limits: Limits,
        current_fingerprint: Callable[[], str],
    ) -> None:
        self.fingerprint = fingerprint
        self._folder = folder
        self._files = files
        self._format = record_format
        self._limits = limits
        self._current_fingerprint = current_fingerprint
        self._width = 0

    def plan(self) -> InputPlan:
        """Choose the chunk size and count the records of all files."""
        size = chunk_size(sum(file.size for file in self._files), configured=self._limits.chunk_bytes)
        total = sum(self._format.count(self._folder / file.name, size=file.size) for file in self._files)
        return InputPlan(fingerprint=self.fingerprint, chunk_size=size, total=total)

    def chunks(self, plan: InputPlan) -> Sequence[Chunk]:
        """Divide every file into ranges of the plan's chunk size; the last one is shorter, and no range spans files."""
        ranges = (
            (unit, start, min(start + plan.chunk_size, file.size))
            for unit, file in enumerate(self._files)
            for start in range(0, file.size, plan.chunk_size)
        )
        return [Chunk(index=index, unit=unit, start=start, end=end) for index, (unit, start, end) in enumerate(ranges)]

    def read(self, chunk: Chunk, *, first: int) -> Iterator[Batch]:
        """Yield the batches of one range."""
        file = self._files[chunk.unit]
        path = self._folder / file.name
        try:
            for batch in self._format.read(path, chunk, size=file.size, first=first, limits=self._limits):
                self._check_width(batch, file)
                yield batch
        except OSError as error:
            raise InputError(f"cannot read {file.name}: {error.strerror}") from error

    def verify(self) -> None:
        """Raise InputError if the files have changed since they were opened."""
        if self._current_fingerprint() != self.fingerprint:
            raise InputError(
                "the input changed while it was being read; start a new run, and do not modify its files until it has ended"
            )

    def _check_width(self, batch: Batch, file: InputFile) -> None:
        width = len(batch.rows[0])
        self._width = self._width or width
        if width != self._width:
            raise InputError(
                f"{file.name}: record {batch.first} has {width} numbers, previous records have {self._width}; "
                "all records of a run must have the same number of values",
                is_retryable=False,
            )


def chunk_size(total_bytes: int, *, configured: int = 0) -> int:
    """Return the bytes of a chunk: `configured`, or if that is 0 a 128th of the input, between 16 KiB and 4 MiB."""
    return configured or min(max(-(-total_bytes // _TARGET_CHUNKS), _SMALLEST_CHUNK), _LARGEST_CHUNK)


def fingerprint_of(files: Sequence[InputFile]) -> str:
    """Return a hash of the files' names, sizes and times."""
    text = "\n".join(f"{file.name}\t{file.size}\t{file.modified_ns}\t{file.changed_ns}" for file in files)
    return "files-sha256:" + hashlib.sha256(text.encode()).hexdigest()

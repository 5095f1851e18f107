"""A Source over files: cuts them into byte ranges and has a record format read each range.

Used for the claim of the `file` label and for what other stores spool to disk. The files must not change while a run
reads them; `verify` finds out when they did.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runner.errors import InputError
from runner.seams import RecordFormat
from runner.settings import KIB, MIB, Settings
from runner.values import Chunk, Cut, InputFile, Records

_CHUNKS_AIMED_AT = 128
_SMALLEST_CHUNK = 16 * KIB
_LARGEST_CHUNK = 4 * MIB


class FileRanges:
    """An input of one or more files in a folder, in the order given."""

    def __init__(
        self,
        folder: Path,
        files: Sequence[InputFile],
        *,
        fingerprint: str,
        record_format: RecordFormat,
        settings: Settings,
        look_again: Callable[[], str],
    ) -> None:
        self.fingerprint = fingerprint
        self._folder = folder
        self._files = files
        self._format = record_format
        self._settings = settings
        self._look_again = look_again
        self._width = 0

    def survey(self) -> Cut:
        """Cut the files and count their records."""
        size = chunk_size(sum(file.size for file in self._files), wanted=self._settings.chunk_bytes)
        total = sum(self._format.count(self._folder / file.name, size=file.size) for file in self._files)
        return Cut(fingerprint=self.fingerprint, chunk_size=size, total=total)

    def chunks(self, cut: Cut) -> Sequence[Chunk]:
        """Every file in ranges of the cut's size, the last one shorter; no range crosses files."""
        ranges = (
            (unit, start, min(start + cut.chunk_size, file.size))
            for unit, file in enumerate(self._files)
            for start in range(0, file.size, cut.chunk_size)
        )
        return [Chunk(index=index, unit=unit, start=start, end=end) for index, (unit, start, end) in enumerate(ranges)]

    def read(self, chunk: Chunk, *, first: int) -> Iterator[Records]:
        """The batches of one range."""
        file = self._files[chunk.unit]
        try:
            for records in self._format.read(
                self._folder / file.name, chunk, size=file.size, first=first, settings=self._settings
            ):
                self._check_width(records, file)
                yield records
        except OSError as error:
            raise InputError(f"{file.name} could not be read: {error.strerror}") from error

    def verify(self) -> None:
        """Look at the files again; raises InputError if they are not what they were."""
        if self._look_again() != self.fingerprint:
            raise InputError(
                "the input changed while it was read; leave its files alone until the run has ended, "
                "then start a new run"
            )

    def _check_width(self, records: Records, file: InputFile) -> None:
        width = len(records.rows[0])
        self._width = self._width or width
        if width != self._width:
            raise InputError(
                f"{file.name}: record {records.first} has {width} numbers, earlier ones have {self._width}; "
                "all records of a run must have the same number of values"
            )


def chunk_size(total_bytes: int, *, wanted: int = 0) -> int:
    """Bytes of a chunk: `wanted`, or by default a 128th of the input between 16 KiB and 4 MiB."""
    return wanted or min(max(-(-total_bytes // _CHUNKS_AIMED_AT), _SMALLEST_CHUNK), _LARGEST_CHUNK)


def fingerprint_of(files: Sequence[InputFile]) -> str:
    """A hash over names, sizes and times of files."""
    text = "\n".join(f"{file.name}\t{file.size}\t{file.modified_ns}" for file in files)
    return "files-sha256:" + hashlib.sha256(text.encode()).hexdigest()

"""A Source over files: divides them into ranges, which a record format reads.

It serves every store that provides files, and the files to which other stores spool their input. The files must not change
during the run; `verify` detects changes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inferrun.plugins import ArrowRecords, Block, Chunk, InputError, InputFile, InputPlan, Limits, RecordFormat
from inferrun.plugins.limits import KIB, MIB

if TYPE_CHECKING:
    import pyarrow

_TARGET_CHUNKS = 128
_SMALLEST_CHUNK = 16 * KIB
_LARGEST_CHUNK = 4 * MIB


class FileRanges:
    """An input of one or more files, in the given order."""

    def __init__(
        self,
        files: Sequence[InputFile],
        *,
        fingerprint: str,
        record_format: RecordFormat,
        limits: Limits,
        current_fingerprint: Callable[[], str],
    ) -> None:
        self.fingerprint = fingerprint
        self._files = files
        self._format = record_format
        self._limits = limits
        self._current_fingerprint = current_fingerprint
        self._width = 0
        self._schema: pyarrow.Schema | None = None

    def plan(self) -> InputPlan:
        """Divide all files into chunks and count the records. No chunk spans files."""
        size = chunk_size(sum(file.size for file in self._files), configured=self._limits.chunk_bytes)
        chunks: list[Chunk] = []
        first = 0
        for unit, file in enumerate(self._files):
            with _input_errors(file):
                for piece in self._format.plan(file, chunk_bytes=size, limits=self._limits):
                    chunks.append(Chunk(len(chunks), unit, piece.start, piece.end, first, piece.records))
                    first += piece.records
        return InputPlan(fingerprint=self.fingerprint, chunks=tuple(chunks))

    def first_chunk(self) -> Chunk | None:
        """Return the first chunk of the plan without counting the other records."""
        size = chunk_size(sum(file.size for file in self._files), configured=self._limits.chunk_bytes)
        for unit, file in enumerate(self._files):
            with _input_errors(file):
                for piece in self._format.plan(file, chunk_bytes=size, limits=self._limits):
                    return Chunk(0, unit, piece.start, piece.end, 0, piece.records)
        return None

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the records of one range."""
        file = self._files[chunk.unit]
        first = chunk.first
        with _input_errors(file):
            for block in self._format.read(file, chunk, limits=self._limits):
                self._check_width(block, file, first=first)
                first += len(block.records)
                yield block

    def verify(self) -> None:
        """Raise InputError if the files have changed since they were opened."""
        if self._current_fingerprint() != self.fingerprint:
            raise InputError(
                "the input changed while it was being read; start a new run, and do not modify its files until it has ended"
            )

    def _check_width(self, block: Block, file: InputFile, *, first: int) -> None:
        """All blocks of rows of numbers have the same width, because a batch may span blocks."""
        if isinstance(block.records, ArrowRecords):
            self._check_columns(block.records, file)
            return
        if not block.records.texts[0].startswith(b"["):
            return
        width = block.records.texts[0].count(b",") + 1
        self._width = self._width or width
        if width != self._width:
            raise InputError(
                f"{file.name}: record {first} has {width} numbers, previous records have {self._width}; "
                "all records of a run must have the same number of values",
                is_retryable=False,
            )

    def _check_columns(self, records: ArrowRecords, file: InputFile) -> None:
        schema = records.table.schema
        self._schema = self._schema or schema
        if not schema.equals(self._schema):
            raise InputError(
                f"{file.name} has other columns, or columns of other types, than the previous files", is_retryable=False
            )


@contextmanager
def _input_errors(file: InputFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {file.name}: {error.strerror}") from error


def chunk_size(total_bytes: int, *, configured: int = 0) -> int:
    """Return the bytes of a chunk: `configured`, or if that is 0 a 128th of the input, between 16 KiB and 4 MiB."""
    return configured or min(max(-(-total_bytes // _TARGET_CHUNKS), _SMALLEST_CHUNK), _LARGEST_CHUNK)

"""A Source over files: divides them into ranges, which a record format reads.

It serves every store that provides files, and the files to which other stores spool their input. The files must not change
during the run; `verify` detects changes.

A chunk is a range of one file in the format's measure, or several whole files: many small files are grouped until they have the
size of a chunk. The second kind has start 0 and, as its end, the number of files with a minus sign.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from inferrun.plugins import (
    ArrowRecords,
    Block,
    Chunk,
    InputError,
    InputFile,
    InputPlan,
    Limits,
    Piece,
    RecordFormat,
    Skipped,
)
from inferrun.plugins.limits import KIB, MIB
from runner.stores.skipped_files import NO_RECORDS, listed

if TYPE_CHECKING:
    import pyarrow

_TARGET_CHUNKS = 128
_SMALLEST_CHUNK = 16 * KIB
_LARGEST_CHUNK = 4 * MIB

_WHOLE: Final = sys.maxsize
"""The end of a range that is a whole file, whatever the format's measure is."""


@dataclass(frozen=True, slots=True)
class _Range:
    unit: int
    files: int
    """0 for a part of a file."""

    size: int
    piece: Piece


class FileRanges:
    """An input of one or more files, in the given order."""

    def __init__(
        self,
        files: Sequence[InputFile],
        *,
        fingerprint: str,
        record_format: RecordFormat,
        limits: Limits,
        current_fingerprint: Callable[[], str] | None = None,
        skipped: tuple[Skipped, ...] = (),
    ) -> None:
        """`current_fingerprint`: None if the files cannot change; `skipped`: what is beside them and not read."""
        self.skipped = skipped
        self.fingerprint = fingerprint
        self._files = files
        self._format = record_format
        self._limits = limits
        self._current_fingerprint = current_fingerprint
        self._form: _Form | None = None

    def plan(self) -> InputPlan:
        """Divide all files into chunks and count the records."""
        chunks: list[Chunk] = []
        first = 0
        without = set(range(len(self._files))) if len(self._files) > 1 else set[int]()
        for one in _grouped(self._ranges(), size=self._chunk_size):
            end = -one.files if one.files > 1 else one.piece.end
            chunks.append(Chunk(len(chunks), one.unit, one.piece.start, end, first, one.piece.records))
            first += one.piece.records
            without.difference_update(range(one.unit, one.unit + max(one.files, 1)))
        empty = listed(dict.fromkeys((self._files[unit].name for unit in without), NO_RECORDS))
        return InputPlan(fingerprint=self.fingerprint, chunks=tuple(chunks), skipped=(*self.skipped, *empty))

    def first_chunk(self) -> Chunk | None:
        """Return the first chunk of the plan, or a part of it, without counting the other records."""
        one = next(self._ranges(), None)
        return Chunk(0, one.unit, one.piece.start, one.piece.end, 0, one.piece.records) if one else None

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the records of a chunk."""
        if chunk.end >= 0:
            yield from self._read(chunk)
            return
        first = chunk.first
        for unit in range(chunk.unit, chunk.unit - chunk.end):
            for block in self._read(replace(chunk, unit=unit, end=_WHOLE, first=first)):
                first += len(block.records)
                yield block

    def _read(self, chunk: Chunk) -> Iterator[Block]:
        file = self._files[chunk.unit]
        first = chunk.first
        with _input_errors(file):
            for block in self._format.read(file, chunk, limits=self._limits):
                self._check_form(block, file, first=first)
                first += len(block.records)
                yield block

    @cached_property
    def _chunk_size(self) -> int:
        return chunk_size(sum(file.size for file in self._files), configured=self._limits.chunk_bytes)

    def _ranges(self) -> Iterator[_Range]:
        """Yield the ranges of all files in order. A file of one range that is smaller than a chunk is a whole file."""
        size = self._chunk_size
        for unit, file in enumerate(self._files):
            with _input_errors(file):
                pieces = self._format.plan(file, chunk_bytes=size, limits=self._limits)
                begin = list(islice(pieces, 2 if file.size < size else 1))
                is_whole = len(begin) == 1 and file.size < size
                for piece in chain(begin, pieces):
                    yield _Range(unit, int(is_whole), file.size, piece)

    def verify(self) -> None:
        """Raise InputError if the files have changed since they were opened."""
        if self._current_fingerprint and self._current_fingerprint() != self.fingerprint:
            raise InputError(
                "the input changed while it was being read; start a new run, and do not modify its files until it has ended"
            )

    def _check_form(self, block: Block, file: InputFile, *, first: int) -> None:
        """All blocks have the form of the first one, because a batch may span files, and a model knows columns by their order."""
        if len(block.errors) == len(block.records):
            return
        found = _form_of(block)
        if self._form is None:
            self._form = found if first == 0 else self._form_of_first()
        if found.width != self._form.width:
            raise InputError(
                f"{file.name}: record {first} has {found.width} numbers, previous records have {self._form.width}; "
                "all records of a run must have the same number of values",
                is_retryable=False,
            )
        if found != self._form:
            raise InputError(
                f"{file.name} has other columns, or columns of other types or in another order, than the previous files; name "
                "those that feed the model in tensors.inputs, or write all files with the same columns",
                is_retryable=False,
            )

    def _form_of_first(self) -> "_Form":
        """Read the first block, if another Pod has predicted it."""
        chunk = self.first_chunk()
        if chunk is None:
            raise InputError("the input has no records where its first chunk begins; it changed")
        file = self._files[chunk.unit]
        with _input_errors(file):
            return _form_of(next(self._format.read(file, chunk, limits=self._limits)))


@dataclass(frozen=True, slots=True)
class _Form:
    columns: "pyarrow.Schema | tuple[str, ...]" = ()
    width: int = 0
    """Numbers per record; 0 if the records are columns, or something else than arrays."""


def _form_of(block: Block) -> _Form:
    if isinstance(block.records, ArrowRecords):
        return _Form(block.records.table.schema)
    text = block.records.texts[0]
    return _Form(tuple(block.columns), text.count(b",") + 1 if text.startswith(b"[") else 0)


def _grouped(ranges: Iterator[_Range], *, size: int) -> Iterator[_Range]:
    held: _Range | None = None
    for one in ranges:
        if held and one.files and held.files and held.unit + held.files == one.unit and held.size < size:
            records = held.piece.records + one.piece.records
            held = _Range(held.unit, held.files + 1, held.size + one.size, Piece(0, 0, records))
            continue
        if held:
            yield held
        held = one
    if held:
        yield held


@contextmanager
def _input_errors(file: InputFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {file.name}: {error.strerror}") from error


def chunk_size(total_bytes: int, *, configured: int = 0) -> int:
    """Return the bytes of a chunk: `configured`, or if that is 0 a 128th of the input, between 16 KiB and 4 MiB."""
    return configured or min(max(-(-total_bytes // _TARGET_CHUNKS), _SMALLEST_CHUNK), _LARGEST_CHUNK)

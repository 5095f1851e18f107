"""A Source over files: divides them into ranges, which a record format reads.

It serves every store that provides files, and the files to which other stores spool their input.
The files must not change during the run; `verify` detects changes.

A chunk is a range of one file in the format's measure, or several whole files: many small files are
grouped until they have the size of a chunk. The second kind has start 0 and, as its end, the number
of files with a minus sign.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from inferrun.formats.compressions import COMPRESSED
from inferrun.formats.dataset import partition_folder, partitions_of
from inferrun.formats.jsonl.format import Jsonl
from inferrun.formats.partitions import DatasetFile
from inferrun.formats.skipped_files import NO_RECORDS, describe, listed
from inferrun.plugins import (
    Block,
    Chunk,
    ContractError,
    InputError,
    InputFile,
    InputPlan,
    JsonRecords,
    Limits,
    Piece,
    PlannedObject,
    RecordFormat,
    Skipped,
    SourceAbilities,
    TypedFormat,
)
from inferrun.plugins.limits import KIB, MIB
from inferrun.stores.dataset import ALL_COLUMNS, NO_TYPES, FolderStorage
from inferrun_runner.stores.dataset import OpenedDataset

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
        self, dataset: OpenedDataset, *, record_format: RecordFormat, limits: Limits
    ) -> None:
        self._dataset = dataset
        self._format = record_format
        self._limits = limits
        self._schema: pyarrow.Schema | None = None
        self._columns: tuple[str, ...] | None = None
        self._check_types()
        self._use(dataset.found.objects)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What is beside the files and not read."""
        return self._dataset.found.skipped

    @property
    def abilities(self) -> SourceAbilities:
        """All of them."""
        return SourceAbilities(adopt=self.adopt, first_chunk=self.first_chunk)

    def _check_types(self) -> None:
        """Raise ContractError for types of a format that has none."""
        spec = self._dataset.spec
        if self._format.abilities.typed:
            return
        if spec.types:
            raise ContractError(f"{self._dataset.label}.types: {NO_TYPES}")
        if spec.missing_columns == "Null" and not isinstance(self._format, Jsonl):
            raise ContractError(f"{self._dataset.label}.missingColumns: {ALL_COLUMNS}")

    def plan(self) -> InputPlan:
        """Divide all files into chunks and count the records. Raises InputError if there are none
        and must be some."""
        self._use(self._dataset.seal(self._objects))
        chunks: list[Chunk] = []
        first = 0
        without = set(range(len(self._files))) if len(self._files) > 1 else set[int]()
        for one in _grouped(self._ranges(), size=self._chunk_size, folders=self._folders):
            end = -one.files if one.files > 1 else one.piece.end
            chunks.append(
                Chunk(len(chunks), one.unit, one.piece.start, end, first, one.piece.records)
            )
            first += one.piece.records
            without.difference_update(range(one.unit, one.unit + max(one.files, 1)))
        empty = listed(dict.fromkeys((self._files[unit].name for unit in without), NO_RECORDS))
        skipped = (*self.skipped, *empty)
        if not chunks:
            self._check_empty(skipped)
        return InputPlan(
            fingerprint=self.fingerprint,
            chunks=tuple(chunks),
            skipped=skipped,
            objects=self._objects,
            schema=bytes(self._schema.serialize()) if self._schema else b"",
        )

    def adopt(self, plan: InputPlan) -> None:
        """Read the files and the columns of the plan, which another attempt may have made: files
        may have been added since."""
        if plan.objects:
            found = {one.name: one for one in self._dataset.found.objects}
            if missing := next((one.name for one in plan.objects if one.name not in found), ""):
                raise InputError(
                    f"{self._dataset.label}: {missing} is missing, with which the run has begun; start a new run"
                )
            is_same = self._dataset.is_same
            self._use(
                [one if is_same(one, found[one.name]) else found[one.name] for one in plan.objects]
            )
        if plan.schema and self._format.abilities.typed:
            import pyarrow  # noqa: PLC0415  only runs with columns pay for its import

            self._use_schema(pyarrow.ipc.read_schema(pyarrow.py_buffer(plan.schema)))

    def _use(self, objects: Sequence[PlannedObject]) -> None:
        self._objects = tuple(objects)
        spec = self._dataset.spec
        partitions = partitions_of(
            objects, spec.partitions if isinstance(spec, FolderStorage) else {}
        )
        files = [self._dataset.files[one.name] for one in objects]
        self._files = [
            DatasetFile(*one)
            for one in zip([one.name for one in objects], files, partitions, strict=True)
        ]
        self._folders = [
            partition_folder(one.name) if self._dataset.is_partitioned else "" for one in objects
        ]
        if self._dataset.is_partitioned and "" in self._folders:
            text = (
                f"layout.partitions: {objects[self._folders.index('')].name} of {self._dataset.label} is in no folder such as "
                "dt=2026-11-23; remove the field, or let the input's path end before that folder, or match it with a pattern"
            )
            raise InputError(text, is_retryable=False)
        self.fingerprint = self._dataset.identify(objects)

    def _check_empty(self, skipped: Sequence[Skipped]) -> None:
        if self._dataset.spec.allow_empty:
            return
        details = f" ({text})" if (text := describe(skipped)) else ""
        text = f"{self._dataset.label}: the input has no records{details}; set allowEmpty: true if it may be empty"
        raise InputError(text, is_retryable=False)

    def first_chunk(self) -> Chunk | None:
        """Return a chunk that begins as the first one; that of a table ends with its file, for a
        chunk may be a single row."""
        if (one := next(self._ranges(), None)) is None:
            self._check_empty(self.skipped)
            return None
        end = _WHOLE if self._format.abilities.typed else one.piece.end
        return Chunk(0, one.unit, one.piece.start, end, 0, one.piece.records)

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
            for block in self._reader().read(file, chunk, limits=self._limits):
                self._check_columns(block, file, first=first)
                first += len(block.records)
                yield block

    def _reader(self) -> RecordFormat:
        """Return the format that reads all files as if they had the same columns. It has read what
        columns they have."""
        if self._schema is None and self._files and (typed := self._format.abilities.typed):
            self._use_schema(self._unified(typed))
        return self._format

    def _use_schema(self, schema: "pyarrow.Schema") -> None:
        self._schema = schema
        if typed := self._format.abilities.typed:
            self._format = typed.with_schema(schema)

    def _unified(self, typed: TypedFormat) -> "pyarrow.Schema":
        from inferrun.formats.result_schema import parse_type  # noqa: PLC0415  only runs with columns import pyarrow
        from inferrun.formats.unify import SchemaRules, schema_of  # noqa: PLC0415  as above

        spec = self._dataset.spec
        types = {name: parse_type(text) for name, text in spec.types.items()}

        def read(file: InputFile) -> "pyarrow.Schema":
            with _input_errors(file):
                return typed.schema(file)

        rules = SchemaRules(types, self._dataset.label, may_miss=spec.missing_columns == "Null")
        return schema_of(self._files, read, typed.columns, rules)

    @cached_property
    def _chunk_size(self) -> int:
        # Files whose names do not say that they are compressed count as listed: to know better,
        # they would have to be read.
        sizes = (
            file.size if file.name.endswith(COMPRESSED) else one.size
            for file, one in zip(self._files, self._objects, strict=True)
        )
        return chunk_size(sum(sizes), configured=self._limits.chunk_bytes)

    def _ranges(self) -> Iterator[_Range]:
        """Yield the ranges of all files in order. A file of one range that is smaller than a chunk
        is a whole file."""
        size = self._chunk_size
        for unit, file in enumerate(self._files):
            with _input_errors(file):
                pieces = self._reader().plan(file, chunk_bytes=size, limits=self._limits)
                begin = list(islice(pieces, 2 if file.size < size else 1))
                is_whole = len(begin) == 1 and file.size < size
                for piece in chain(begin, pieces):
                    yield _Range(unit, int(is_whole), file.size, piece)

    def verify(self) -> None:
        """Raise InputError if the files have changed since they were opened. Others may have been
        added."""
        if not self._dataset.find_again:
            return
        found = {one.name: one for one in self._dataset.find_again().objects}
        is_same = self._dataset.is_same
        changed = (
            one.name
            for one in self._objects
            if one.name not in found or not is_same(one, found[one.name])
        )
        if name := next(changed, ""):
            raise InputError(
                f"the input changed while it was being read: {name} is not what it was; start a new run, and do not modify its "
                "files until it has ended"
            )

    def _check_columns(self, block: Block, file: InputFile, *, first: int) -> None:
        """All blocks have the columns of the first one: a batch may span files, and a model knows
        columns by their order."""
        if len(block.errors) == len(block.records) or not isinstance(block.records, JsonRecords):
            return  # those of a table have the columns of the schema
        found = tuple(block.columns)
        if self._columns is None:
            self._columns = found if first == 0 else self._columns_of_first()
        if found != self._columns:
            raise InputError(
                f"{file.name} has other columns, or columns of other types or in another order, than the previous files; name "
                "those that feed the model in tensors.inputs, or write all files with the same columns",
                is_retryable=False,
            )

    def _columns_of_first(self) -> tuple[str, ...]:
        """Read the first block, if another Pod has predicted it."""
        chunk = self.first_chunk()
        if chunk is None:
            raise InputError("the input has no records where its first chunk begins; it changed")
        file = self._files[chunk.unit]
        with _input_errors(file):
            return tuple(next(self._reader().read(file, chunk, limits=self._limits)).columns)


def _grouped(ranges: Iterator[_Range], *, size: int, folders: Sequence[str]) -> Iterator[_Range]:
    held: _Range | None = None
    for one in ranges:
        is_next = held and one.files and held.files and held.unit + held.files == one.unit
        if held and is_next and held.size < size and folders[held.unit] == folders[one.unit]:
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
    """Return the bytes of a chunk: `configured`, or if that is 0 a 128th of the input, between 16
    KiB and 4 MiB."""
    return configured or min(
        max(-(-total_bytes // _TARGET_CHUNKS), _SMALLEST_CHUNK), _LARGEST_CHUNK
    )

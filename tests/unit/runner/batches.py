"""Records and results as Python values, for tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson
import pyarrow

from inferrun.formats.record_texts import json_texts
from inferrun.plugins import (
    Batch,
    Block,
    Chunk,
    CustomId,
    JsonRecords,
    Limits,
    RecordError,
    RecordFormat,
    Results,
)
from inferrun_runner.stores.file.local_files import MemoryFile

ARROW_TYPES = {
    "BOOL": pyarrow.bool_(),
    "INT8": pyarrow.int8(),
    "INT16": pyarrow.int16(),
    "INT32": pyarrow.int32(),
    "INT64": pyarrow.int64(),
    "UINT8": pyarrow.uint8(),
    "UINT16": pyarrow.uint16(),
    "UINT32": pyarrow.uint32(),
    "UINT64": pyarrow.uint64(),
    "FP16": pyarrow.float16(),
    "BF16": pyarrow.float32(),
    "FP32": pyarrow.float32(),
    "FP64": pyarrow.float64(),
}
"""The types of predictions with V2's datatypes of numbers and booleans."""


def records(values: Iterable[object]) -> JsonRecords:
    """JSON texts of values."""
    return JsonRecords([orjson.dumps(value) for value in values])


def batch(values: Iterable[object], *, first: int = 0, ids: Sequence[CustomId] = ()) -> Batch:
    """A batch of values."""
    return Batch(first=first, records=records(values), ids=ids)


def results(values: Sequence[object]) -> Results:
    """Results of predictions; a RecordError is an error of its record."""
    errors = {at: value for at, value in enumerate(values) if isinstance(value, RecordError)}
    return Results(
        records(None if at in errors else value for at, value in enumerate(values)), errors
    )


def decoded(found: Batch | Block | Results) -> list[object]:
    """The values of records or predictions; an error in place of a failed one."""
    values: list[object] = [
        orjson.loads(text)
        for text in json_texts(found.values if isinstance(found, Results) else found.records)
    ]
    if isinstance(found, Results):
        for at, error in found.errors.items():
            values[at] = error
    return values


@dataclass(frozen=True, slots=True)
class File:
    """A file with an expected size."""

    path: Path
    size: int

    @property
    def name(self) -> str:
        return self.path.name

    def open(self) -> BinaryIO:
        return self.path.open("rb")


def file_of(path: Path, *, size: int | None = None) -> File:
    """A file of its actual size, unless another one is given."""
    return File(path, path.stat().st_size if size is None else size)


def chunks_of(record_format: RecordFormat, file: MemoryFile, *, chunk_bytes: int) -> list[Chunk]:
    """The chunks into which a format divides a file."""
    chunks: list[Chunk] = []
    first = 0
    for piece in record_format.plan(file, chunk_bytes=chunk_bytes, limits=Limits()):
        chunks.append(Chunk(len(chunks), 0, piece.start, piece.end, first, piece.records))
        first += piece.records
    return chunks

"""Reads records from ORC files. Each row is a record; see `inferrun.formats.table_reader`.

Rows are decoded from the beginning of a file, a block at a time, however large its stripes are: pyarrow does not say how many rows
a stripe has. Results are never written in this form. Imports pyarrow.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, Final

import pyarrow
from pyarrow import compute, dataset, orc
from pyarrow import types as kinds

from inferrun.formats.table_reader import Group, OpenedTable, TableReader
from inferrun.plugins import ContractError, InputError, InputFile, ResultWriter


class Orc(TableReader):
    """Reads columns."""

    suffixes: tuple[str, ...] = (".orc",)
    results_suffix = ""
    form = "ORC"

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:
        """Open a file."""
        return _OrcFile(stack.enter_context(file.open()), file.size, file.name)

    def writer(self, *_: object, **_more: object) -> ResultWriter:
        """Raise ContractError."""
        raise ContractError("output: results cannot be written as ORC")


_GREGORIAN: Final = -141_427
"""1582-10-15 in days since 1970: before it, a file of ORC's Java library has Julian dates, unless its footer says otherwise."""


class _OrcFile:
    def __init__(self, source: BinaryIO, size: int, name: str) -> None:
        self._name = name
        self._is_julian = _has_julian_dates(source, size)
        self._content = dataset.OrcFileFormat().make_fragment(pyarrow.PythonFile(source, "r"))
        self.schema: pyarrow.Schema = self._content.physical_schema
        names = self.schema.names
        self.groups: Sequence[Group] = [
            Group(self._content.count_rows(), dict.fromkeys(names, size // max(len(names), 1)))
        ]

    def batches(self, group: int, columns: list[str], *, rows: int) -> Iterator[pyarrow.RecordBatch]:  # noqa: ARG002  the seam's
        """Yield rows, without reading ahead."""
        found: Iterator[pyarrow.RecordBatch] = self._content.to_batches(
            columns=columns, batch_size=rows, batch_readahead=0, fragment_readahead=0, use_threads=False
        )
        try:
            yield from map(self._checked, found) if self._is_julian else found
        except pyarrow.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):  # pyarrow (26.0) has no other unit for ORC
                raise
            times = [name for name in columns if "timestamp[ns" in str(self.schema.field(name).type)]
            text = f"{self._name} has a time before 1677-09-21 or after 2262-04-11 in {' or '.join(map(repr, times))}"
            raise InputError(
                f"{text}, which the reader of ORC does not have; write Parquet, or a date or text, or do not use the column",
                is_retryable=False,
            ) from error

    def _checked(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return a column with a Julian date as texts of which that one is no date, so that its record has an error.

        pyarrow (26.0) takes the day for one of the Gregorian calendar: 1500-03-01 of Spark (4.1) becomes 1500-03-11.
        """
        for at, field in enumerate(batch.schema):
            for column in _dates_in(batch.column(at)):
                is_julian = compute.less(column.cast(pyarrow.int32()), _GREGORIAN)
                if not compute.any(is_julian).as_py():
                    continue
                if not kinds.is_date32(field.type):
                    text = f"{self._name}: column {field.name!r} has a date before 1582-10-15 in the Julian calendar"
                    raise InputError(
                        f"{text}, which the reader of ORC does not have; write Parquet, or do not use it",
                        is_retryable=False,
                    )
                texts = compute.if_else(is_julian, "Julian", column.cast(pyarrow.string()))
                batch = batch.set_column(at, field.name, texts)
        return batch


def _dates_in(column: pyarrow.Array) -> Iterator[pyarrow.Array]:
    if kinds.is_date32(column.type):
        yield column
    elif kinds.is_map(column.type):
        yield from _dates_in(column.keys)
        yield from _dates_in(column.items)
    elif kinds.is_struct(column.type):
        for one in column.flatten():
            yield from _dates_in(one)
    elif kinds.is_list(column.type):
        yield from _dates_in(column.flatten())


def _has_julian_dates(source: BinaryIO, size: int) -> bool:
    """Whether dates before 1582-10-15 are Julian: field 11 of the footer (orc_proto.proto), which pyarrow lacks, is not 2."""
    file = orc.ORCFile(pyarrow.PythonFile(source, "r"))
    if file.writer != "ORC_JAVA":
        return False
    length = file.file_footer_length
    source.seek(size - 1 - file.file_postscript_length - length)
    footer = _decompressed(source.read(length), file.compression)
    at = 0
    while at < len(footer):
        key, at = _varint(footer, at)
        value, end = _varint(footer, at)
        if key == 11 << 3:
            return value != 2
        at = end + value if key & 7 == 2 else end  # the footer has numbers and what has a length, no others
    return True


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of Protocol Buffers, and where it ends."""
    end = next((end for end in range(at, len(content)) if content[end] < 128), len(content) - 1) + 1
    return sum((one & 127) << 7 * place for place, one in enumerate(content[at:end])), end


def _decompressed(content: bytes, compression: str) -> bytes:
    """Return the content of chunks, each with a header of three bytes: the size, and a bit for one that is not compressed."""
    if compression == "UNCOMPRESSED":
        return content
    found = b""
    while content:
        header = int.from_bytes(content[:3], "little")
        chunk, content = content[3 : 3 + (header >> 1)], content[3 + (header >> 1) :]
        if header & 1:
            found += chunk
        elif compression == "ZLIB":
            found += zlib.decompress(chunk, -15)
        elif compression == "SNAPPY":
            found += pyarrow.decompress(chunk, _varint(chunk, 0)[0], "snappy", asbytes=True)
        elif compression == "ZSTD":
            found += pyarrow.CompressedInputStream(pyarrow.BufferReader(chunk), "zstd").read()
        else:
            return b""  # a codec that does not say how long its content is: dates are taken for Julian
    return found


ORC = Orc()

"""Reads records from ORC files. Each row is a record; see `inferrun.formats.table_reader`.

Rows are decoded from the beginning of a file, a block at a time, however large its stripes are: pyarrow does not say how many rows
a stripe has. Results are never written in this form. Imports pyarrow.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import BinaryIO, Final

import pyarrow
from pyarrow import compute, dataset, orc
from pyarrow import types as kinds

from inferrun.formats.exact_casts import parts_in
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
        self._source = source
        self._size = size
        self._content = dataset.OrcFileFormat().make_fragment(pyarrow.PythonFile(source, "r"))
        self.schema: pyarrow.Schema = self._content.physical_schema
        names = self.schema.names
        self.groups: Sequence[Group] = [
            Group(self._content.count_rows(), dict.fromkeys(names, size // max(len(names), 1)))
        ]

    def batches(self, group: int, columns: list[str], *, rows: int) -> Iterator[pyarrow.RecordBatch]:  # noqa: ARG002  the seam's
        """Yield rows, without reading ahead."""
        # The text of a type has all of its parts. The footer is read before the rows, which other threads read at other positions.
        has_dates = any("date32" in str(self.schema.field(name).type) for name in columns)
        is_checked = has_dates and self._is_julian
        found: Iterator[pyarrow.RecordBatch] = self._content.to_batches(
            columns=columns, batch_size=rows, batch_readahead=0, fragment_readahead=0, use_threads=False
        )
        try:
            yield from map(self._checked, found) if is_checked else found
        except pyarrow.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):  # pyarrow (26.0) has no other unit for ORC
                raise
            times = [name for name in columns if "timestamp[ns" in str(self.schema.field(name).type)]
            text = f"{self._name} has a time before 1677-09-21 or after 2262-04-11 in {' or '.join(map(repr, times))}"
            raise InputError(
                f"{text}, which the reader of ORC does not have; write Parquet, or a date or text, or do not use the column",
                is_retryable=False,
            ) from error

    @cached_property
    def _is_julian(self) -> bool:
        """Whether dates before 1582-10-15 are Julian: field 11 of the footer (orc_proto.proto), hidden by pyarrow, is not 2."""
        file = orc.ORCFile(pyarrow.PythonFile(self._source, "r"))
        if file.writer != "ORC_JAVA":
            return False
        length = file.file_footer_length
        self._source.seek(self._size - 1 - file.file_postscript_length - length)
        footer = _decompressed(self._source.read(length), file.compression)
        at = 0
        while at < len(footer):
            key, at = _varint(footer, at)
            value, end = _varint(footer, at)
            if key == 11 << 3:
                return value != 2
            at = end + value if key & 7 == 2 else end  # the footer has numbers and what has a length, no others
        return True

    def _checked(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return a column with a Julian date as texts of which that one is no date, so that its record has an error.

        pyarrow (26.0) takes the day for one of the Gregorian calendar: 1500-03-01 of Spark (4.1) becomes 1500-03-11.
        """
        for at, field in enumerate(batch.schema):
            for column in parts_in(batch.column(at), kinds.is_date32):
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

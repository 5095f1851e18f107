"""Reads records from ORC files. Each row is a record; see `inferrun.formats.table_reader`.

Rows are decoded from the beginning of a file, a block at a time, however large its stripes are:
pyarrow does not say how many rows a stripe has. Results are never written in this form. Imports
pyarrow.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, BinaryIO, Final

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
"""1582-10-15 in days since 1970: before it, a file of ORC's Java library has Julian dates, unless
its footer says otherwise."""

_EPOCH: Final = 14 * 3_600 * 10**9
"""In nanoseconds: around 1970 the sign of a time depends on the zone, of which there are some up to
14 hours from UTC."""


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

    def batches(
        self,
        group: int,  # noqa: ARG002  the seam's
        columns: list[str],
        *,
        rows: int,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows, without reading ahead."""
        # The text of a type has all of its parts. The footer is read before the rows, which other
        # threads read at other positions.
        is_doubtful = any(
            one in str(self.schema.field(name).type)
            for name in columns
            for one in ("date32", "timestamp[ns]")
        )
        is_checked = is_doubtful and any(self._misread)
        found: Iterator[pyarrow.RecordBatch] = self._content.to_batches(
            columns=columns,
            batch_size=rows,
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )
        try:
            yield from map(self._checked, found) if is_checked else found
        except pyarrow.ArrowInvalid as error:
            # pyarrow (26.0) has no other unit for ORC
            if "out of range for nanosecond" not in str(error):
                raise
            times = [
                name for name in columns if "timestamp[ns" in str(self.schema.field(name).type)
            ]
            text = f"{self._name} has a time before 1677-09-21 or after 2262-04-11 in {' or '.join(map(repr, times))}"
            raise InputError(
                f"{text}, which the reader of ORC does not have; write Parquet, or a date or text, or do not use the column",
                is_retryable=False,
            ) from error

    @cached_property
    def _misread(self) -> tuple[bool, bool]:
        """Whether a Java program wrote dates before 1582-10-15 as Julian, and times in another zone
        than UTC.

        pyarrow (26.0) hides both: field 11 of the footer, and field 3 of the stripes' footers
        (orc_proto.proto).
        """
        file = orc.ORCFile(pyarrow.PythonFile(self._source, "r"))
        if file.writer != "ORC_JAVA":
            return False, False
        length = file.file_footer_length
        at = self._size - 1 - file.file_postscript_length - length
        footer = list(_fields(self._part(at, length, file.compression)))
        zones = set[object]()
        for number, stripe in footer:
            if number == 3:
                place = dict(_fields(stripe))
                at = sum(place.get(one, 0) for one in (1, 2, 3))
                zones.add(dict(_fields(self._part(at, place[4], file.compression))).get(3))
        return dict(footer).get(11) != 2, not zones <= {
            b"UTC",
            b"Etc/UTC",
            b"GMT",
            b"Z",
        } or not footer

    def _part(self, at: int, length: int, compression: str) -> bytes:
        self._source.seek(at)
        return _decompressed(self._source.read(length), compression)

    def _checked(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return a column with a value that pyarrow misreads as texts of which that one is no
        value: its record has an error.

        pyarrow (26.0) takes a Julian date for a Gregorian one: 1500-03-01 of Spark (4.1) becomes
        1500-03-11. Java stores the seconds of -0.5 s as 0, and readers take one from those of a
        negative time; pyarrow judges the sign by the writer's clock.
        """
        has_julian, has_zone = self._misread
        for at, field in enumerate(batch.schema):
            for column in parts_in(
                batch.column(at),
                lambda kind: kinds.is_date32(kind) or kind == pyarrow.timestamp("ns"),
            ):
                is_date = kinds.is_date32(column.type)
                if not (has_julian if is_date else has_zone):
                    continue
                is_misread = _is_julian(column) if is_date else _is_near_epoch(column)
                if not compute.any(is_misread).as_py():
                    continue
                if column.type != field.type:
                    one = (
                        "date before 1582-10-15 in the Julian calendar"
                        if is_date
                        else "time near 1970 of another zone than UTC"
                    )
                    text = f"{self._name}: column {field.name!r} has a {one}, which the reader of ORC takes for another one"
                    raise InputError(f"{text}; write Parquet, or do not use it", is_retryable=False)
                texts = compute.if_else(is_misread, "misread", column.cast(pyarrow.string()))
                batch = batch.set_column(at, field.name, texts)
        return batch


def _is_julian(days: pyarrow.Array) -> pyarrow.Array:
    return compute.less(days.cast(pyarrow.int32()), _GREGORIAN)


def _is_near_epoch(times: pyarrow.Array) -> pyarrow.Array:
    """Which times near 1970 have a fraction of a second, of a millisecond or more."""
    fractions = compute.subtract(times, compute.floor_temporal(times, unit="second")).cast(
        pyarrow.int64()
    )
    is_near = compute.less(compute.abs(times.cast(pyarrow.int64())), _EPOCH)
    return compute.and_(is_near, compute.greater_equal(fractions, 1_000_000))


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message of Protocol Buffers that are numbers or have a length: all that
    ORC's footers have."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        value, end = _varint(content, at)
        if key & 7 == 2:
            at, end = end, end + value
            yield key >> 3, content[at:end]
        else:
            yield key >> 3, value
        at = end


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of Protocol Buffers, and where it ends."""
    end = next((end for end in range(at, len(content)) if content[end] < 128), len(content) - 1) + 1
    return sum((one & 127) << 7 * place for place, one in enumerate(content[at:end])), end


def _decompressed(content: bytes, compression: str) -> bytes:
    """Return the content of chunks, each with a header of three bytes: the size, and a bit for one
    that is not compressed."""
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
            # a codec that does not say how long its content is: its dates and times are doubted
            return b""
    return found


ORC = Orc()

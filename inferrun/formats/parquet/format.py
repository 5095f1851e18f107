"""Reads records from and writes results to Parquet files. Each row is a record; see `inferrun.formats.table_reader`.

A column `custom_id` of strings or integers is copied to the results. Results are tables, too: see `inferrun.formats.table_results`.
Imports pyarrow, so only runs that name this format load it.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from struct import Struct
from typing import BinaryIO, Final

import pyarrow
from pyarrow import parquet

from inferrun.formats.columns import UNREAD
from inferrun.formats.table_reader import Group, OpenedTable, TableReader
from inferrun.formats.table_results import ROWS_AT_ONCE, TableFile, TableResults
from inferrun.plugins import InputError, InputFile
from inferrun.plugins.limits import KIB, MIB

_BUFFER: Final = 256 * KIB
"""Bytes that are read of a column at a time."""

_ENDING: Final = Struct("<I4s")
"""The size of the footer, and PAR1."""

_SIGNATURE: Final = 28
"""Bytes of a signature at the end of a footer that is readable while columns are encrypted (Parquet's modular encryption). The
process ends when pyarrow 26.0.1 is asked for the metadata of such a column without its key."""

_GROUP_BYTES: Final = 16 * MIB
"""Memory of the results that are held for a row group."""


class Parquet(TableReader, TableResults):
    """Reads columns, and writes a table of results."""

    results_suffix = ".parquet"
    compressions = ("zstd", "snappy", "gzip", "lz4", "none")
    suffixes: tuple[str, ...] = (results_suffix, ".pq")
    form = "Parquet"

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:
        """Open a file."""
        # Without a buffer, and with one that is filled ahead, all of a row group's columns are read at once.
        source = stack.enter_context(file.open())
        content = parquet.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False)
        source.seek(file.size - _ENDING.size)
        if _ENDING.unpack(source.read(_ENDING.size))[0] == content.metadata.serialized_size + _SIGNATURE:
            text = (
                f"{file.name} has a signed footer: columns of it are encrypted, which cannot be read; decrypt the file"
            )
            raise InputError(text, is_retryable=False)
        return _ParquetFile(content)

    def create_table(self, out: BinaryIO, schema: pyarrow.Schema) -> TableFile:
        """Begin a file whose row groups have about `_GROUP_BYTES`."""
        return _Table(out, schema, self.compression or self.compressions[0])

    def stored_batches(self, results: BinaryIO) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a result file."""
        batches: Iterator[pyarrow.RecordBatch] = parquet.ParquetFile(results).iter_batches(
            batch_size=ROWS_AT_ONCE, use_threads=False
        )
        return batches

    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a result file."""
        return parquet.ParquetFile(pyarrow.BufferReader(content)).read()


class _ParquetFile:
    def __init__(self, content: parquet.ParquetFile) -> None:
        self._content = content
        self.schema: pyarrow.Schema = _marked(content.schema_arrow, str(content.schema))
        metadata = content.metadata
        self.groups: Sequence[Group] = [
            _group_of(metadata.row_group(index)) for index in range(metadata.num_row_groups)
        ]

    def batches(self, group: int, columns: list[str], *, rows: int) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows, page by page."""
        groups = list(range(group, len(self.groups)))
        found: Iterator[pyarrow.RecordBatch] = self._content.iter_batches(
            batch_size=rows, row_groups=groups, columns=columns, use_threads=False
        )
        return found


_UNREAD: Final = re.compile(r" \((Interval|Variant)\b[^\n]*\)(;| \{)$", re.MULTILINE)


def _marked(schema: pyarrow.Schema, text: str) -> pyarrow.Schema:
    """Mark the columns with types that pyarrow 26.0.1 returns as the bytes they are made of.

    Only the schema's text has them all: each column is a line with an indentation of two, and what is within it follows.
    """
    if not _UNREAD.search(text):
        return schema
    columns = re.split(r"^  (?=\w)", text, flags=re.MULTILINE)[1:]
    for at, (field, one) in enumerate(zip(schema, columns, strict=True)):
        if found := _UNREAD.search(one):
            mark = {UNREAD: f"of Parquet's type {found[1].upper()}".encode()}
            schema = schema.set(at, field.with_metadata({**(field.metadata or {}), **mark}))
    return schema


def _group_of(metadata: parquet.RowGroupMetaData) -> Group:
    sizes: dict[str, int] = {}
    for at in range(metadata.num_columns):
        column = metadata.column(at)
        name = column.path_in_schema.partition(".")[0]
        sizes[name] = sizes.get(name, 0) + column.total_uncompressed_size
    return Group(metadata.num_rows, sizes)


class _Table:
    """A file whose rows are held until they are enough for a row group."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema, compression: str) -> None:
        self._schema = schema
        self._file = parquet.ParquetWriter(out, schema, compression=compression)
        self._held: list[pyarrow.RecordBatch] = []
        self._size = 0

    def write_batch(self, batch: pyarrow.RecordBatch) -> None:
        """Append rows."""
        self._held.append(batch)
        self._size += batch.nbytes
        if self._size >= _GROUP_BYTES:
            self._write()

    def close(self) -> None:
        """Complete the file."""
        self._write()
        self._file.close()

    def _write(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if held:
            self._file.write_table(pyarrow.Table.from_batches(held, self._schema), row_group_size=1 << 26)


PARQUET = Parquet()

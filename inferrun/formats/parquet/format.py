"""Reads records from and writes results to Parquet files. Each row is a record; see
`inferrun.formats.table_reader`.

A column `custom_id` of strings or integers is copied to the results. Results are tables, too: see
`inferrun.formats.table_results`. Imports pyarrow, so only runs that name this format load it.
"""

import re
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack
from itertools import islice
from struct import Struct
from typing import BinaryIO, Final

import pyarrow
from pyarrow import parquet

from inferrun.formats.columns import ROWS_PER_BLOCK, UNREAD, needed_columns
from inferrun.formats.exact_casts import with_parts
from inferrun.formats.parquet.int96 import exact_times, has_nanoseconds
from inferrun.formats.table_reader import Group, OpenedTable
from inferrun.formats.table_results import ROWS_AT_ONCE, TableFile, TableResults
from inferrun.formats.wide_integers import Replaced, without_wide_integers
from inferrun.plugins import InputError, InputFile
from inferrun.plugins.limits import KIB, MIB

_BUFFER: Final = 256 * KIB
"""Bytes that are read of a column at a time."""

_ENDING: Final = Struct("<I4s")
"""The size of the footer, and PAR1."""

_SIGNATURE: Final = 28
"""Bytes of a signature at the end of a footer that is readable while columns are encrypted
(Parquet's modular encryption). The process ends when pyarrow 26.0.1 is asked for the metadata of
such a column without its key."""

_BATCHES: Final = 64
"""Blocks that are read to find out whether times have nanoseconds: a million rows."""

_GROUP_BYTES: Final = 16 * MIB
"""Memory of the results that are held for a row group."""


class Parquet(TableResults):
    """Reads columns, and writes a table of results."""

    results_suffix = ".parquet"
    compressions = ("zstd", "snappy", "gzip", "lz4", "none")
    suffixes: tuple[str, ...] = (results_suffix, ".pq")
    form = "Parquet"

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:
        """Open a file."""
        # Without a buffer, and with one that is filled ahead, all of a row group's columns are read
        # at once.
        given = stack.enter_context(file.open())
        source: BinaryIO | Replaced = given

        def read(unit: str) -> parquet.ParquetFile:
            return parquet.ParquetFile(
                source,
                buffer_size=_BUFFER,
                pre_buffer=False,
                coerce_int96_timestamp_unit=unit,
                # Spark stores checksums, and readers ignore them by default
                page_checksum_verification=True,
            )

        try:
            content = read("us")
        except pyarrow.ArrowNotImplementedError as error:
            source = without_wide_integers(given, error)
            content = read("us")
        schema = (
            source.marked(content.schema_arrow)
            if isinstance(source, Replaced)
            else content.schema_arrow
        )
        source.seek(file.size - _ENDING.size)
        if (
            _ENDING.unpack(source.read(_ENDING.size))[0]
            == content.metadata.serialized_size + _SIGNATURE
        ):
            text = f"{file.name} has a signed footer: columns of it are encrypted, which cannot be read; decrypt the file"
            raise InputError(text, is_retryable=False)
        return _ParquetFile(content, schema, nanoseconds=lambda: read("ns"))

    def columns_in(self, content: OpenedTable) -> pyarrow.Schema:
        """Return the columns. Times of the type INT96 are in nanoseconds only if one of the first
        has more than microseconds."""
        found = content.schema
        doubtful = (
            content.int96 if isinstance(content, _ParquetFile) and content.groups else frozenset()
        )
        for name in doubtful & {*needed_columns(found, self.columns)}:
            first = islice(content.batches(0, [name], rows=ROWS_PER_BLOCK), _BATCHES)
            if any(has_nanoseconds(batch.column(0)) for batch in first):
                at = found.get_field_index(name)
                found = found.set(
                    at, found.field(at).with_type(with_parts(found.field(at).type, _in_nanoseconds))
                )
        return found

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
    def __init__(
        self,
        content: parquet.ParquetFile,
        schema: pyarrow.Schema,
        *,
        nanoseconds: Callable[[], parquet.ParquetFile],
    ) -> None:
        self._content = content
        self._nanoseconds = nanoseconds
        self.schema: pyarrow.Schema = _with_texts(
            _marked(schema, str(content.schema)), content.schema
        )
        metadata = content.metadata
        is_of_spark = any(key.startswith(b"org.apache.spark.") for key in metadata.metadata or ())
        self.int96: Set[str] = frozenset(() if is_of_spark else _int96(content.schema))
        """The columns of times that may have nanoseconds."""

        self.groups: Sequence[Group] = [
            _group_of(metadata.row_group(index)) for index in range(metadata.num_row_groups)
        ]

    def batches(
        self, group: int, columns: list[str], *, rows: int
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows, page by page."""

        def read(content: parquet.ParquetFile, names: list[str]) -> Iterator[pyarrow.RecordBatch]:
            groups = list(range(group, len(self.groups)))
            found: Iterator[pyarrow.RecordBatch] = content.iter_batches(
                batch_size=rows, row_groups=groups, columns=names, use_threads=False
            )
            return found

        if not (doubtful := self.int96 & {*columns}):
            return read(self._content, columns)
        pairs = zip(
            read(self._content, columns), read(self._nanoseconds(), sorted(doubtful)), strict=True
        )
        return (exact_times(one, other, doubtful) for one, other in pairs)


_UNREAD: Final = re.compile(r" \((Interval|Variant)\b[^\n]*\)(;| \{)$", re.MULTILINE)


def _marked(schema: pyarrow.Schema, text: str) -> pyarrow.Schema:
    """Mark the columns with types that pyarrow 26.0.1 returns as the bytes they are made of.

    Only the schema's text has them all: each column is a line with an indentation of two, and what
    is within it follows.
    """
    if not _UNREAD.search(text):
        return schema
    columns = re.split(r"^  (?=\w)", text, flags=re.MULTILINE)[1:]
    for at, (field, one) in enumerate(zip(schema, columns, strict=True)):
        if found := _UNREAD.search(one):
            mark = {UNREAD: f"of Parquet's type {found[1].upper()}".encode()}
            schema = schema.set(at, field.with_metadata({**(field.metadata or {}), **mark}))
    return schema


def _int96(schema: parquet.ParquetSchema) -> Iterator[str]:
    for at in range(len(schema)):
        if (column := schema.column(at)).physical_type == "INT96":
            yield column.path.partition(".")[0]


def _in_nanoseconds(kind: pyarrow.DataType) -> pyarrow.DataType:
    return pyarrow.timestamp("ns") if pyarrow.types.is_timestamp(kind) else kind


def _with_texts(schema: pyarrow.Schema, stored: parquet.ParquetSchema) -> pyarrow.Schema:
    """Return the columns of which those of the logical type ENUM are texts, as Parquet says;
    pyarrow (26.0) calls them bytes."""
    is_enum = [stored.column(at).logical_type.type == "ENUM" for at in range(len(stored))]
    if not any(is_enum):
        return schema
    parts = iter(is_enum)

    def text(kind: pyarrow.DataType) -> pyarrow.DataType:
        return pyarrow.string() if next(parts) else kind

    return pyarrow.schema(
        [one.with_type(with_parts(one.type, text)) for one in schema], schema.metadata
    )


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
            self._file.write_table(
                pyarrow.Table.from_batches(held, self._schema), row_group_size=1 << 26
            )


PARQUET = Parquet()

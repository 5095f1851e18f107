"""Reads records from and writes results to Parquet files. Each row is a record, and each column is a number, in the schema's order.

A column `custom_id` of strings or integers is copied to the results. Ranges are row groups, which are read as a stream. Results are
tables, too: see `inferrun.formats.table_results`. Imports pyarrow, so only runs that name this format load it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

import pyarrow
from pyarrow import parquet

from inferrun.formats.columns import ROWS_PER_BLOCK, block_of, check_schema, group_pieces, needed_columns, reading
from inferrun.formats.table_results import ROWS_AT_ONCE, TableFile, TableResults
from inferrun.plugins import (
    Block,
    Chunk,
    ColumnSelection,
    InputFile,
    Limits,
    Piece,
    RecordFormat,
)
from inferrun.plugins.columns import ALL_COLUMNS

_GROUP_BYTES: Final = 16 << 20
"""Memory of the results that are held for a row group."""


class Parquet(TableResults):
    """Reads columns, and writes a table of results."""

    results_suffix = ".parquet"
    suffixes: tuple[str, ...] = (results_suffix,)

    def __init__(self, columns: ColumnSelection = ALL_COLUMNS) -> None:
        self._columns = columns

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these columns."""
        return Parquet(columns)

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:  # noqa: ARG002  the seam's
        """Group row groups until they have about `chunk_bytes`."""
        with _opened(file) as content:
            check_schema(content.schema_arrow, file, self._columns)
            metadata = content.metadata
            groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
            yield from group_pieces(
                ((group.total_byte_size, group.num_rows) for group in groups), chunk_bytes=chunk_bytes
            )

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:  # noqa: ARG002  the seam's
        """Yield the rows of the chunk's row groups."""
        with _opened(file) as content:
            check_schema(content.schema_arrow, file, self._columns)
            groups = list(range(chunk.start, min(chunk.end, content.num_row_groups)))
            names = needed_columns(content.schema_arrow, self._columns)
            for table in content.iter_batches(
                batch_size=ROWS_PER_BLOCK, row_groups=groups, columns=names, use_threads=False
            ):
                yield block_of(table, self._columns)

    def create_table(self, out: BinaryIO, schema: pyarrow.Schema) -> TableFile:
        """Begin a file whose row groups have about `_GROUP_BYTES`."""
        return _Table(out, schema)

    def stored_batches(self, results: BinaryIO) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a result file."""
        batches: Iterator[pyarrow.RecordBatch] = parquet.ParquetFile(results).iter_batches(
            batch_size=ROWS_AT_ONCE, use_threads=False
        )
        return batches

    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a result file."""
        return parquet.read_table(pyarrow.BufferReader(content))


class _Table:
    """A file whose rows are held until they are enough for a row group."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        self._schema = schema
        self._file = parquet.ParquetWriter(out, schema, compression="zstd")
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


@contextmanager
def _opened(file: InputFile) -> Iterator[parquet.ParquetFile]:
    with file.open() as source, reading(file, form="Parquet"):
        yield parquet.ParquetFile(source)


PARQUET = Parquet()

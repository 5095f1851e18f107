"""Reads records from and writes results to Parquet files. Each row is a record, and each column is a number, in the schema's order.

A column `custom_id` of strings or integers is copied to the results. Ranges are row groups, which are read as a stream. Results are
tables, too: see `inferrun.formats.result_table`. Imports pyarrow, so only runs that name this format load it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow
from pyarrow import parquet

from inferrun.formats.collected_results import PiecewiseWriter
from inferrun.formats.columns import ALL, ROWS_PER_BLOCK, block_of, check_schema, group_pieces, needed_columns, reading
from inferrun.formats.result_table import ROWS_AT_ONCE, joined, rows_of, table_of
from inferrun.plugins import (
    Block,
    Chunk,
    ColumnSelection,
    InputFile,
    Limits,
    Piece,
    RecordFormat,
    ResultWriter,
    StoredResult,
)


class Parquet:
    """Reads columns, and writes a table of results."""

    suffix = ".parquet"
    results_suffix = suffix

    def __init__(self, columns: ColumnSelection = ALL) -> None:
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

    def writer(self, out: BinaryIO, errors: BinaryIO) -> ResultWriter:
        """Return a writer of one table."""
        return PiecewiseWriter(out, errors, convert=table_of, encode=_encoded)

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:  # noqa: ARG002  the seam's
        """Yield the rows of a result file."""
        for rows in parquet.ParquetFile(results).iter_batches(batch_size=ROWS_AT_ONCE, use_threads=False):
            yield from rows_of(rows)

    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a result file."""
        return parquet.read_table(pyarrow.BufferReader(content))


@contextmanager
def _opened(file: InputFile) -> Iterator[parquet.ParquetFile]:
    with file.open() as source, reading(file, form="Parquet"):
        yield parquet.ParquetFile(source)


def _encoded(tables: Sequence[pyarrow.Table]) -> memoryview:
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(joined(tables), sink)
    return memoryview(sink.getvalue())


PARQUET = Parquet()

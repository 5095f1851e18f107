"""Reads records from and writes results to Parquet files. Each row is a record, and each column is a number, in the schema's order.

A column `custom_id` of strings or integers is copied to the results. Ranges are row groups, which are read as a stream. Results are
tables, too: see `inferrun.formats.result_table`. Imports pyarrow, so only runs that name this format load it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyarrow import parquet

from inferrun.formats.columns import ROWS_PER_BLOCK, block_of, check_schema, group_pieces, needed_columns, reading
from inferrun.formats.parquet.results import SUFFIX, ParquetResults
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
from inferrun.plugins.limits import KIB

_BUFFER: Final = 256 * KIB
"""Bytes that are read of a column at a time."""


class Parquet(ParquetResults):
    """Reads columns, and writes a table of results."""

    suffixes: tuple[str, ...] = (SUFFIX,)

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


@contextmanager
def _opened(file: InputFile) -> Iterator[parquet.ParquetFile]:
    with file.open() as source, reading(file, form="Parquet"):
        # Without a buffer, and with one that is filled ahead, all of a row group's columns are read at once.
        yield parquet.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False)


PARQUET = Parquet()

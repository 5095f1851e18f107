"""Reads records from and writes results to Parquet files. Each row is a record; see `inferrun.formats.table_reader`.

A column `custom_id` of strings or integers is copied to the results. Results are tables, too: see `inferrun.formats.result_table`.
Imports pyarrow, so only runs that name this format load it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import pyarrow
from pyarrow import parquet

from inferrun.formats.parquet.results import SUFFIX, ParquetResults
from inferrun.formats.table_reader import Group, TableFile, TableReader
from inferrun.plugins import InputFile
from inferrun.plugins.limits import KIB

_BUFFER: Final = 256 * KIB
"""Bytes that are read of a column at a time."""


class Parquet(TableReader, ParquetResults):
    """Reads columns, and writes a table of results."""

    suffixes: tuple[str, ...] = (SUFFIX, ".pq")
    form = "Parquet"

    def opened(self, file: InputFile, stack: ExitStack) -> TableFile:
        """Open a file."""
        # Without a buffer, and with one that is filled ahead, all of a row group's columns are read at once.
        source = stack.enter_context(file.open())
        return _ParquetFile(parquet.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False))


class _ParquetFile:
    def __init__(self, content: parquet.ParquetFile) -> None:
        self._content = content
        self.schema: pyarrow.Schema = content.schema_arrow
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


def _group_of(metadata: parquet.RowGroupMetaData) -> Group:
    sizes: dict[str, int] = {}
    for at in range(metadata.num_columns):
        column = metadata.column(at)
        name = column.path_in_schema.partition(".")[0]
        sizes[name] = sizes.get(name, 0) + column.total_uncompressed_size
    return Group(metadata.num_rows, sizes)


PARQUET = Parquet()

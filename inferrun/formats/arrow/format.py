"""Reads records from and writes results to Arrow IPC files (Feather version 2). Each row is a record, and each column is a number,
in the schema's order.

A column `custom_id` of strings or integers is copied to the results. Ranges are record batches, each of which is read as a whole.
The format of streams cannot be read from the middle and is not supported. Results are tables,
too: see `inferrun.formats.table_results`. Imports pyarrow, so only runs that name this format load it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

import pyarrow
from pyarrow import ipc

from inferrun.formats.columns import ROWS_PER_BLOCK, block_of, check_schema, group_pieces, reading
from inferrun.formats.table_results import TableFile, TableResults
from inferrun.plugins import (
    Block,
    Chunk,
    ColumnSelection,
    InputError,
    InputFile,
    Limits,
    Piece,
    RecordFormat,
)
from inferrun.plugins.columns import ALL_COLUMNS

_STREAM: Final = b"\xff\xff\xff\xff"
"""The beginning of a stream; a file begins with ARROW1."""


class Arrow(TableResults):
    """Reads columns, and writes a table of results."""

    results_suffix = ".arrow"
    suffixes: tuple[str, ...] = (results_suffix,)

    def __init__(self, columns: ColumnSelection = ALL_COLUMNS) -> None:
        self._columns = columns

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these columns."""
        return Arrow(columns)

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:  # noqa: ARG002  the seam's
        """Group record batches until they have about `chunk_bytes`."""
        with _opened(file) as content:
            check_schema(content.schema, file, self._columns)
            batches = (_batch(content, index, is_read=False) for index in range(content.num_record_batches))
            yield from group_pieces(((batch.nbytes, batch.num_rows) for batch in batches), chunk_bytes=chunk_bytes)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:  # noqa: ARG002  the seam's
        """Yield the rows of the chunk's record batches."""
        with _opened(file) as content:
            check_schema(content.schema, file, self._columns)
            for index in range(chunk.start, min(chunk.end, content.num_record_batches)):
                batch = _batch(content, index, is_read=True)
                for start in range(0, batch.num_rows, ROWS_PER_BLOCK):
                    yield block_of(batch.slice(start, ROWS_PER_BLOCK), self._columns)

    def create_table(self, out: BinaryIO, schema: pyarrow.Schema) -> TableFile:
        """Begin a file."""
        file: TableFile = ipc.new_file(out, schema)
        return file

    def stored_batches(self, results: BinaryIO) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a result file."""
        content = ipc.open_file(results)
        return (_batch(content, index, is_read=True) for index in range(content.num_record_batches))

    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a result file."""
        return ipc.open_file(pyarrow.BufferReader(content)).read_all()


@contextmanager
def _opened(file: InputFile) -> Iterator[ipc.RecordBatchFileReader]:
    with file.open() as source, reading(file, form="an Arrow IPC file"):
        if source.read(len(_STREAM)) == _STREAM:
            raise InputError(
                f"{file.name} is an Arrow IPC stream; write it in the format of files (Feather version 2)",
                is_retryable=False,
            )
        yield ipc.open_file(source)


def _batch(content: ipc.RecordBatchFileReader, index: int, *, is_read: bool) -> pyarrow.RecordBatch:
    """Return a record batch. The file says how many values its buffers have: without a check, memory behind them would be read.

    Before the values are used, the texts in it are checked, too.
    """
    batch = content.get_batch(index)
    batch.validate(full=is_read)
    return batch


ARROW = Arrow()

"""Reads records from and writes results to Arrow IPC files (Feather version 2). Each row is a record, and each column is a number,
in the schema's order.

A column `custom_id` of strings or integers is copied to the results. Ranges are record batches, each of which is read as a whole.
The format of streams cannot be read from the middle and is not supported. Results are tables,
too: see `inferrun.formats.result_table`. Imports pyarrow, so only runs that name this format load it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyarrow import ipc

from inferrun.formats.arrow.results import SUFFIX, ArrowResults, valid_batch
from inferrun.formats.columns import ROWS_PER_BLOCK, block_of, check_schema, group_pieces, reading
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


class Arrow(ArrowResults):
    """Reads columns, and writes a table of results."""

    suffixes: tuple[str, ...] = (SUFFIX,)

    def __init__(self, columns: ColumnSelection = ALL_COLUMNS) -> None:
        self._columns = columns

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these columns."""
        return Arrow(columns)

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:  # noqa: ARG002  the seam's
        """Group record batches until they have about `chunk_bytes`."""
        with _opened(file) as content:
            check_schema(content.schema, file, self._columns)
            batches = (valid_batch(content, index, is_read=False) for index in range(content.num_record_batches))
            yield from group_pieces(((batch.nbytes, batch.num_rows) for batch in batches), chunk_bytes=chunk_bytes)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:  # noqa: ARG002  the seam's
        """Yield the rows of the chunk's record batches."""
        with _opened(file) as content:
            check_schema(content.schema, file, self._columns)
            for index in range(chunk.start, min(chunk.end, content.num_record_batches)):
                batch = valid_batch(content, index, is_read=True)
                for start in range(0, batch.num_rows, ROWS_PER_BLOCK):
                    yield block_of(batch.slice(start, ROWS_PER_BLOCK), self._columns)


@contextmanager
def _opened(file: InputFile) -> Iterator[ipc.RecordBatchFileReader]:
    with file.open() as source, reading(file, form="an Arrow IPC file"):
        if source.read(len(_STREAM)) == _STREAM:
            raise InputError(
                f"{file.name} is an Arrow IPC stream; write it in the format of files (Feather version 2)",
                is_retryable=False,
            )
        yield ipc.open_file(source)


ARROW = Arrow()

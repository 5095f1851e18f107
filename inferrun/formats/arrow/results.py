"""The results of a chunk as an Arrow IPC file: see `inferrun.formats.table_results`."""

from collections.abc import Iterator
from typing import BinaryIO, Final, Literal

import pyarrow
from pyarrow import ipc

from inferrun.formats.result_table import ROWS_AT_ONCE, rows_of
from inferrun.formats.table_results import TableWriter
from inferrun.plugins import ResultWriter, StoredResult

SUFFIX: Final = ".arrow"


class ArrowResults:
    """Writes a table of results, and reads it again."""

    results_suffix = SUFFIX
    has_typed_results: Literal[True] = True

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: pyarrow.Schema | None = None) -> ResultWriter:
        """Return a writer of one table."""
        if schema is None:
            raise ValueError("a table needs a schema")
        file = ipc.new_file(out, schema)
        return TableWriter(schema, errors, store=file.write_batch, finish=file.close)

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:  # noqa: ARG002  the seam's
        """Yield the rows of a result file."""
        content = ipc.open_file(results)
        for index in range(content.num_record_batches):
            batch = valid_batch(content, index, is_read=True)
            for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield from rows_of(batch.slice(start, ROWS_AT_ONCE))

    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a result file."""
        return ipc.open_file(pyarrow.BufferReader(content)).read_all()


def valid_batch(content: ipc.RecordBatchFileReader, index: int, *, is_read: bool) -> pyarrow.RecordBatch:
    """Return a record batch. The file says how many values its buffers have: without a check, memory behind them would be read.

    Before the values are used, the texts in it are checked, too.
    """
    batch = content.get_batch(index)
    batch.validate(full=is_read)
    return batch

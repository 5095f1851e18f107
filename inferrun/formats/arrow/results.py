"""The results of a chunk as an Arrow IPC file: see `inferrun.formats.result_table`."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow
from pyarrow import ipc

from inferrun.formats.collected_results import PiecewiseWriter
from inferrun.formats.columns import ROWS_PER_BLOCK
from inferrun.formats.result_table import ROWS_AT_ONCE, joined, rows_of, table_of
from inferrun.plugins import ResultWriter, StoredResult

SUFFIX: Final = ".arrow"


class ArrowResults:
    """Writes a table of results, and reads it again."""

    results_suffix = SUFFIX

    def writer(self, out: BinaryIO, errors: BinaryIO) -> ResultWriter:
        """Return a writer of one table."""
        return PiecewiseWriter(out, errors, convert=table_of, encode=_encoded)

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


def _encoded(tables: Sequence[pyarrow.Table]) -> memoryview:
    sink, table = pyarrow.BufferOutputStream(), joined(tables)
    with ipc.new_file(sink, table.schema) as file:
        file.write_table(table, max_chunksize=ROWS_PER_BLOCK)
    return memoryview(sink.getvalue())

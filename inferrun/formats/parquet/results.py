"""The results of a chunk as a Parquet file: see `inferrun.formats.result_table`."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow
from pyarrow import parquet

from inferrun.formats.collected_results import PiecewiseWriter
from inferrun.formats.result_table import ROWS_AT_ONCE, joined, rows_of, table_of
from inferrun.plugins import ResultWriter, StoredResult

SUFFIX: Final = ".parquet"


class ParquetResults:
    """Writes a table of results, and reads it again."""

    results_suffix = SUFFIX

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


def _encoded(tables: Sequence[pyarrow.Table]) -> memoryview:
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(joined(tables), sink)
    return memoryview(sink.getvalue())

"""The results of a chunk as a Parquet file: see `inferrun.formats.table_results`."""

from collections.abc import Iterator
from typing import BinaryIO, Final, Literal

import pyarrow
from pyarrow import parquet

from inferrun.formats.result_table import ROWS_AT_ONCE, rows_of
from inferrun.formats.table_results import TableWriter
from inferrun.plugins import ResultWriter, StoredResult

SUFFIX: Final = ".parquet"

_GROUP_BYTES: Final = 16 << 20
"""Memory of the rows that are held for a row group."""


class ParquetResults:
    """Writes a table of results, and reads it again."""

    results_suffix = SUFFIX
    has_typed_results: Literal[True] = True

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: pyarrow.Schema | None = None) -> ResultWriter:
        """Return a writer of one table."""
        if schema is None:
            raise ValueError("a table needs a schema")
        table = _Table(out, schema)
        return TableWriter(schema, errors, store=table.add, finish=table.close)

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:  # noqa: ARG002  the seam's
        """Yield the rows of a result file."""
        for rows in parquet.ParquetFile(results).iter_batches(batch_size=ROWS_AT_ONCE, use_threads=False):
            yield from rows_of(rows)

    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a result file."""
        return parquet.read_table(pyarrow.BufferReader(content))


class _Table:
    """A file whose row groups have about `_GROUP_BYTES`."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        self._schema = schema
        self._file = parquet.ParquetWriter(out, schema, compression="zstd")
        self._held: list[pyarrow.RecordBatch] = []
        self._size = 0

    def add(self, rows: pyarrow.RecordBatch) -> None:
        """Append rows."""
        self._held.append(rows)
        self._size += rows.nbytes
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

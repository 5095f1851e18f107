"""Reads records from ORC files. Each row is a record; see `inferrun.formats.table_reader`.

Rows are decoded from the beginning of a file, a block at a time, however large its stripes are: pyarrow does not say how many rows
a stripe has. Results are never written in this form. Imports pyarrow.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import pyarrow
from pyarrow import dataset

from inferrun.formats.table_reader import Group, OpenedTable, TableReader
from inferrun.plugins import ContractError, InputError, InputFile, ResultWriter


class Orc(TableReader):
    """Reads columns."""

    suffixes: tuple[str, ...] = (".orc",)
    results_suffix = ""
    form = "ORC"

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:
        """Open a file."""
        return _OrcFile(stack.enter_context(file.open()), file.size, file.name)

    def writer(self, *_: object, **_more: object) -> ResultWriter:
        """Raise ContractError."""
        raise ContractError("output: results cannot be written as ORC")


class _OrcFile:
    def __init__(self, source: BinaryIO, size: int, name: str) -> None:
        self._name = name
        self._content = dataset.OrcFileFormat().make_fragment(pyarrow.PythonFile(source, "r"))
        self.schema: pyarrow.Schema = self._content.physical_schema
        names = self.schema.names
        self.groups: Sequence[Group] = [
            Group(self._content.count_rows(), dict.fromkeys(names, size // max(len(names), 1)))
        ]

    def batches(self, group: int, columns: list[str], *, rows: int) -> Iterator[pyarrow.RecordBatch]:  # noqa: ARG002  the seam's
        """Yield rows, without reading ahead."""
        found: Iterator[pyarrow.RecordBatch] = self._content.to_batches(
            columns=columns, batch_size=rows, batch_readahead=0, fragment_readahead=0, use_threads=False
        )
        try:
            yield from found
        except pyarrow.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):  # pyarrow (26.0) has no other unit for ORC
                raise
            times = [name for name in columns if "timestamp[ns" in str(self.schema.field(name).type)]
            text = f"{self._name} has a time before 1677-09-21 or after 2262-04-11 in {' or '.join(map(repr, times))}"
            raise InputError(
                f"{text}, which the reader of ORC does not have; write Parquet, or a date or text, or do not use the column",
                is_retryable=False,
            ) from error


ORC = Orc()

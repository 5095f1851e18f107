"""Reads records from and writes results to Arrow IPC files (Feather version 2). Each row is a record; see
`inferrun.formats.table_reader`.

A column `custom_id` of strings or integers is copied to the results. A file on a disk is mapped, and only the rows of a block are
copied; other files and compressed ones are read batch by batch. The format of streams cannot be read from the middle and is not
supported. Results are tables, too: see `inferrun.formats.result_table`. Imports pyarrow.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, Final

import pyarrow
from pyarrow import ipc

from inferrun.formats.arrow.results import SUFFIX, ArrowResults
from inferrun.formats.table_reader import Group, TableFile, TableReader
from inferrun.plugins import InputError, InputFile

_STREAM: Final = b"\xff\xff\xff\xff"
"""The beginning of a stream; a file begins with ARROW1."""


class Arrow(TableReader, ArrowResults):
    """Reads columns, and writes a table of results."""

    suffixes: tuple[str, ...] = (SUFFIX, ".feather")
    form = "an Arrow IPC file"

    def opened(self, file: InputFile, stack: ExitStack) -> TableFile:
        """Open a file."""
        source = stack.enter_context(file.open())
        if source.read(len(_STREAM)) == _STREAM:
            raise InputError(
                f"{file.name} is an Arrow IPC stream; write it in the format of files (Feather version 2)",
                is_retryable=False,
            )
        return _ArrowFile(source)


class _ArrowFile:
    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        content, _ = self._opened()
        self.schema: pyarrow.Schema = content.schema
        self.groups: Sequence[Group] = [_group_of(content, index) for index in range(content.num_record_batches)]

    def batches(self, group: int, columns: list[str], *, rows: int) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows. The file is mapped anew for each block, because what was read of a mapped file counts as memory."""
        for index in range(group, len(self.groups)):
            content, mapped = self._opened(columns)
            whole = content.get_batch(index)
            if not _is_within(whole, mapped):
                whole.validate(full=True)
                yield whole
                continue
            del content, whole, mapped
            for start in range(0, self.groups[index].rows, rows):
                yield _copied(self._opened(columns)[0].get_batch(index).slice(start, rows))

    def _opened(self, columns: list[str] | None = None) -> tuple[ipc.RecordBatchFileReader, range]:
        """Return the file, of which only some columns are read, and the addresses at which it is mapped."""
        options = None
        if columns is not None:
            options = ipc.IpcReadOptions(included_fields=[self.schema.get_field_index(name) for name in columns])
        try:
            source = pyarrow.memory_map(f"/proc/self/fd/{self._source.fileno()}")
        except io.UnsupportedOperation:
            self._source.seek(0)
            return ipc.open_file(self._source, options=options), range(0)
        content = source.read_buffer()
        source.seek(0)
        return ipc.open_file(source, options=options), range(content.address, content.address + content.size)


def _is_within(batch: pyarrow.RecordBatch, mapped: range) -> bool:
    """Whether the values are in the mapped file, not copied or decompressed."""
    buffers = [one for column in batch.columns for one in column.buffers() if one is not None and one.size]
    return bool(mapped) and all(one.address in mapped for one in buffers)


def _group_of(content: ipc.RecordBatchFileReader, index: int) -> Group:
    """The file says how many values its buffers have: without the check, memory behind them would be read."""
    batch = content.get_batch(index)
    batch.validate()
    return Group(
        batch.num_rows, {name: column.nbytes for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    )


def _copied(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return rows of a mapped file as memory of their own, after a check of all their values."""
    batch.validate(full=True)
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(batch)
    return ipc.open_stream(sink.getvalue()).read_next_batch()


ARROW = Arrow()

"""Reads records from and writes results to Arrow IPC files (Feather version 2). Each row is a
record; see `inferrun.formats.table_reader`.

A column `custom_id` of strings or integers is copied to the results. A file on a disk is mapped,
and only the rows of a block are copied; other files and compressed ones are read batch by batch.
The format of streams cannot be read from the middle and is not supported. Results are tables, too:
see `inferrun.formats.table_results`. Imports pyarrow.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import BinaryIO, Final

import pyarrow
from pyarrow import ipc

from inferrun.formats.table_reader import Group, OpenedTable
from inferrun.formats.table_results import TableFile, TableResults
from inferrun.formats.wide_integers import Replaced, without_wide_integers
from inferrun.plugins import InputError, InputFile

_STREAM: Final = b"\xff\xff\xff\xff"
"""The beginning of a stream; a file begins with ARROW1."""


class Arrow(TableResults):
    """Reads columns, and writes a table of results."""

    results_suffix = ".arrow"
    compressions = ("none", "zstd", "lz4")
    suffixes: tuple[str, ...] = (results_suffix, ".feather")
    form = "an Arrow IPC file"

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:
        """Open a file."""
        source = stack.enter_context(file.open())
        if source.read(len(_STREAM)) == _STREAM:
            raise InputError(
                f"{file.name} is an Arrow IPC stream; write it in the format of files (Feather version 2)",
                is_retryable=False,
            )
        try:
            return _ArrowFile(source)
        except pyarrow.ArrowNotImplementedError as error:
            return _ArrowFile(without_wide_integers(source, error))

    def create_table(self, out: BinaryIO, schema: pyarrow.Schema) -> TableFile:
        """Begin a file."""
        used = None if self.compression == "none" else self.compression
        file: TableFile = ipc.new_file(out, schema, options=ipc.IpcWriteOptions(compression=used))
        return file

    def stored_batches(self, results: BinaryIO) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a result file."""
        content = ipc.open_file(results)
        return (_checked(content.get_batch(index)) for index in range(content.num_record_batches))

    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a result file."""
        return ipc.open_file(pyarrow.BufferReader(content)).read_all()


class _ArrowFile:
    def __init__(self, source: BinaryIO | Replaced) -> None:
        self._source = source
        self._in_place: list[bool] = []
        """Whether the values of each record batch are in the mapped file, not read or
        decompressed."""

        schema = self._opened()[0].schema
        self.schema: pyarrow.Schema = (
            source.marked(schema) if isinstance(source, Replaced) else schema
        )

    @cached_property
    def groups(self) -> Sequence[Group]:
        """The record batches."""
        content, mapped = self._opened()
        return [
            self._group_of(content.get_batch(index), mapped)
            for index in range(content.num_record_batches)
        ]

    def batches(
        self, group: int, columns: list[str], *, rows: int
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows. The file is mapped anew for each block, because what was read of a mapped
        file counts as memory."""
        for index in range(group, len(self.groups)):
            if not self._in_place[index]:
                yield _checked(self._opened(columns)[0].get_batch(index))
                continue
            for start in range(0, self.groups[index].rows, rows):
                yield _copied(self._opened()[0].get_batch(index).select(columns).slice(start, rows))

    def _group_of(self, batch: pyarrow.RecordBatch, mapped: range) -> Group:
        # The file says how many values its buffers have: without the check, memory behind them
        # would be read.
        batch.validate()
        buffers = [
            one
            for column in batch.columns
            for one in column.buffers()
            if one is not None and one.size
        ]
        self._in_place.append(bool(mapped) and all(one.address in mapped for one in buffers))
        return Group(
            batch.num_rows, {name: batch.column(name).nbytes for name in batch.schema.names}
        )

    def _opened(self, columns: list[str] | None = None) -> tuple[ipc.RecordBatchFileReader, range]:
        """Return the file, and the addresses at which it is mapped. With `columns`, only these are
        read, into memory."""
        if columns is None:
            try:
                source = pyarrow.memory_map(f"/proc/self/fd/{self._source.fileno()}")
            except io.UnsupportedOperation:
                pass
            else:
                content = source.read_buffer()
                source.seek(0)
                return ipc.open_file(source), range(content.address, content.address + content.size)
        fields = [self.schema.get_field_index(name) for name in columns or ()]
        self._source.seek(0)
        return ipc.open_file(
            self._source, options=ipc.IpcReadOptions(included_fields=fields)
        ), range(0)


def _copied(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return rows of a mapped file as memory of their own."""
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(_checked(batch))
    return ipc.open_stream(sink.getvalue()).read_next_batch()


def _checked(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    batch.validate(full=True)
    return batch


ARROW = Arrow()

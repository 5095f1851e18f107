"""Files as records: images, audio and documents of a folder, one record each, with their content as bytes.

Its columns are `path`, `name`, `size`, `content`, and those of the path's partitions. A file that is larger than a record may be is
an error of its record and is not read. Results are never written in this form. Imports pyarrow, so only runs that name this format
load it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import BinaryIO, Final

import pyarrow

from inferrun.formats.record_errors import not_sent
from inferrun.formats.table_reader import Group, OpenedTable, TableReader
from inferrun.plugins import Block, Chunk, ContractError, InputFile, Limits, ResultWriter

CONTENT: Final = "content"
SCHEMA: Final = pyarrow.schema(
    {"path": pyarrow.string(), "name": pyarrow.string(), "size": pyarrow.int64(), CONTENT: pyarrow.binary()}
)


class Files(TableReader):
    """Reads files as they are, compressed ones too."""

    suffixes: tuple[str, ...] = ()
    results_suffix = ""
    form = "a file"

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:  # noqa: ARG002  the seam's
        """Return the table of one row. The file is read with its content only."""
        return _OneFile(file)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the record."""
        is_read = CONTENT in (self.columns.fed_of(SCHEMA.names) + self.columns.copied_of(SCHEMA.names))
        if not is_read or file.size <= limits.record_bytes:
            yield from super().read(file, chunk, limits=limits)
            return
        text = f"{file.name} has {file.size} bytes, at most {limits.record_bytes} are allowed (spec.limits.record)"
        for block in super().read(_Unread(file), chunk, limits=limits):
            yield replace(block, errors={0: not_sent(text)})

    def writer(self, *_: object, **_more: object) -> ResultWriter:
        """Raise ContractError."""
        raise ContractError("output: results cannot be written as files")


class _Unread:
    """A file whose content is not read."""

    def __init__(self, file: InputFile) -> None:
        self.name = file.name
        self.size = file.size
        self.partition = getattr(file, "partition", {})

    def open(self) -> BinaryIO:
        raise AssertionError("the file is too large")


class _OneFile:
    """A file as a table of one row."""

    schema = SCHEMA

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self.groups: Sequence[Group] = [Group(1, {CONTENT: file.size})]

    def batches(self, group: int, columns: list[str], *, rows: int) -> Iterator[pyarrow.RecordBatch]:  # noqa: ARG002  the seam's
        file = self._file
        content: bytes | None = None
        if CONTENT in columns and not isinstance(file, _Unread):
            with file.open() as opened:
                content = opened.read(
                    file.size + 1
                )  # one more shows that it has grown; the input is verified at the end
        row = {"path": file.name, "name": file.name.rpartition("/")[2], "size": file.size, CONTENT: content}
        schema = pyarrow.schema([SCHEMA.field(name) for name in columns])
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([row[one.name]], one.type) for one in schema], schema=schema
        )


FILES = Files()

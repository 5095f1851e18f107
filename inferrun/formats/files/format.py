"""Files as records: images, audio and documents of a folder, one record each, with their content as
bytes.

Its columns are `path`, `name`, `size`, `content`, and those of the path's partitions. What a server
has compressed, as its Content-Encoding says, is decompressed; if only the name says so, it is the
content. A file that is larger than a record may be, or cannot be decompressed, is an error of its
record. Results are never written in this form. Imports pyarrow, so only runs that name this format
load it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import BinaryIO, Final

import pyarrow

from inferrun.formats.compressions import NotDecompressed
from inferrun.formats.record_errors import not_sent
from inferrun.formats.table_reader import Group, OpenedTable, TableReader
from inferrun.plugins import Block, Chunk, ContractError, InputFile, Limits, ResultWriter

CONTENT: Final = "content"
SCHEMA: Final = pyarrow.schema(
    {
        "path": pyarrow.string(),
        "name": pyarrow.string(),
        "size": pyarrow.int64(),
        CONTENT: pyarrow.binary(),
    }
)


class FilesFormat(TableReader):
    """Reads files as they are, compressed ones too."""

    suffixes: tuple[str, ...] = ()
    results_suffix = ""
    form = "a file"

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:  # noqa: ARG002  the seam's
        """Return the table of one row. The file is read with its content only."""
        return _OneFile(file)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the record."""
        if CONTENT not in (
            self.columns.fed_of(SCHEMA.names) + self.columns.copied_of(SCHEMA.names)
        ):
            yield from super().read(file, chunk, limits=limits)
            return
        content, fault = _content_of(file, limit=limits.record_bytes)
        for block in super().read(_ReadFile(file, content), chunk, limits=limits):
            yield replace(block, errors={0: not_sent(fault)}) if fault else block

    def writer(self, *_: object, **_more: object) -> ResultWriter:
        """Raise ContractError."""
        raise ContractError("output: results cannot be written as files")


def _content_of(file: InputFile, *, limit: int) -> tuple[bytes | None, str]:
    """Return the content, or what is wrong with it."""
    has, allowed = f"{file.name} has", f"at most {limit} are allowed (spec.limits.record)"
    if file.size > limit:
        return None, f"{has} {file.size} bytes, {allowed}"
    try:
        with file.open() as opened:
            content = opened.read(limit + 1)
    except NotDecompressed as error:
        return None, str(error)
    return (
        (content, "")
        if len(content) <= limit
        else (None, f"{has} more than {limit} bytes, {allowed}")
    )


class _ReadFile:
    """A file whose content was read, or cannot be used."""

    def __init__(self, file: InputFile, content: bytes | None) -> None:
        self.name = file.name
        self.size = file.size if content is None else len(content)
        self.content = content
        self.partition = getattr(file, "partition", {})

    def open(self) -> BinaryIO:
        raise AssertionError("the file was read")


class _OneFile:
    """A file as a table of one row."""

    schema = SCHEMA

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self.groups: Sequence[Group] = [Group(1, {CONTENT: file.size})]

    def batches(
        self,
        group: int,  # noqa: ARG002  the seam's
        columns: list[str],
        *,
        rows: int,  # noqa: ARG002  the seam's
    ) -> Iterator[pyarrow.RecordBatch]:
        file = self._file
        content = file.content if isinstance(file, _ReadFile) else None
        row = {
            "path": file.name,
            "name": file.name.rpartition("/")[2],
            "size": file.size,
            CONTENT: content,
        }
        schema = pyarrow.schema([SCHEMA.field(name) for name in columns])
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([row[one.name]], one.type) for one in schema], schema=schema
        )


FILES = FilesFormat()

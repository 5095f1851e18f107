"""What all formats of tables share: chunks are ranges of rows, and an open file is read on by the
next chunk.

pyarrow can only begin at a group of rows (a row group, a record batch, a stripe). So a chunk that
follows the one before continues where that has ended, and another one decodes the rows of its group
that are before it. Imports pyarrow.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow

from inferrun.formats.columns import INDEX, PARTITION, ROWS_PER_BLOCK, block_of, index_columns
from inferrun.formats.exact_casts import cast_exactly
from inferrun.formats.file_kinds import HEAD, as_kind
from inferrun.formats.partitions import partition_of, scalar_of
from inferrun.formats.record_errors import not_sent
from inferrun.plugins import (
    Block,
    Chunk,
    ColumnSelection,
    FormatAbilities,
    InputError,
    InputFile,
    Limits,
    Piece,
    RecordError,
    RecordFormat,
)
from inferrun.plugins.columns import ALL_COLUMNS
from inferrun.plugins.limits import MIB

_BLOCK_BYTES: Final = MIB
"""Decoded bytes of a block: so much is sent as one request at most."""

_CHUNK_BYTES: Final = 4 * MIB
"""Decoded bytes of a chunk, however well its file is compressed."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that are stored together."""

    rows: int

    sizes: Mapping[str, int]
    """The bytes of each column, as far as the file says so."""


class OpenedTable(Protocol):
    """An opened file."""

    @property
    def schema(self) -> pyarrow.Schema:
        """Its columns."""

    @property
    def groups(self) -> Sequence[Group]:
        """All of its rows."""

    def batches(
        self, group: int, columns: list[str], *, rows: int
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a group and of those after it, about `rows` at a time."""


class TableReader:
    """Reads columns; a format adds how its files are opened, and how its results are written."""

    suffixes: tuple[str, ...]
    form: str
    """What a file of the format is called in messages."""

    def __init__(
        self, columns: ColumnSelection = ALL_COLUMNS, schema: pyarrow.Schema | None = None
    ) -> None:
        self.columns = columns
        self._schema = schema
        self._cursor: _Cursor | None = None

    @property
    def abilities(self) -> FormatAbilities:
        """Files have columns with types."""
        return FormatAbilities(with_columns=self.with_columns, typed=self)

    def opened(self, file: InputFile, stack: ExitStack) -> OpenedTable:
        """Open a file, which the stack closes."""
        raise NotImplementedError

    def columns_in(self, content: OpenedTable) -> pyarrow.Schema:
        """Return the columns of a file, whose rows may have to be read to know them."""
        return content.schema

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these columns."""
        return type(self)(columns, self._schema)  # type: ignore[return-value]  # a format writes results, too

    def with_schema(self, schema: pyarrow.Schema) -> RecordFormat:
        """Return the format that reads files as if all had these columns."""
        return type(self)(self.columns, schema)  # type: ignore[return-value]  # as above

    def schema(self, file: InputFile) -> pyarrow.Schema:
        """Return the columns of a file and of its path. Where both have one, that of the path is
        used."""
        with ExitStack() as stack, reading(file, form=self.form):
            found = self.columns_in(self.opened(file, stack))
            partition, index = _path_columns(file), index_columns(found)
            return pyarrow.schema(
                [
                    *(
                        one.with_metadata({**(one.metadata or {}), INDEX: b"1"})
                        if one.name in index
                        else one
                        for one in found
                        if one.name not in partition
                    ),
                    *(
                        pyarrow.field(name, value.type, metadata={PARTITION: b"1"})
                        for name, value in partition.items()
                    ),
                ]
            )

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:  # noqa: ARG002  the seam's
        """Divide the rows into ranges of about `chunk_bytes` of the file."""
        with ExitStack() as stack, reading(file, form=self.form):
            content = self.opened(file, stack)
            total = sum(group.rows for group in content.groups)
            if not total:
                return
            decoded = _row_bytes(content, self._names(content))
            rows = max(
                1, min(total * chunk_bytes // max(file.size, 1), int(_CHUNK_BYTES / decoded))
            )
            for start in range(0, total, rows):
                stop = min(start + rows, total)
                yield Piece(start, stop, stop - start)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:  # noqa: ARG002  the seam's
        """Yield the rows of the chunk."""
        cursor, self._cursor = self._cursor, None
        if cursor is None or not cursor.is_at(file, chunk.start):
            if cursor:
                cursor.close()
            with reading(file, form=self.form):
                cursor = self._begin(file, chunk.start)
        try:
            while True:
                with reading(file, form=self.form):
                    if (batch := cursor.next(chunk.end)) is None:
                        break
                    block = self._block(batch, file, row=cursor.row - batch.num_rows)
                yield block
            self._cursor, cursor = cursor, None
        finally:
            if cursor:
                cursor.close()

    def _begin(self, file: InputFile, row: int) -> "_Cursor":
        with ExitStack() as stack:
            content = self.opened(file, stack)
            names = self._names(content)
            rows = max(1, min(int(_BLOCK_BYTES / _row_bytes(content, names)), ROWS_PER_BLOCK))
            start, group = 0, 0
            while group < len(content.groups) and start + content.groups[group].rows <= row:
                start += content.groups[group].rows
                group += 1
            batches = (
                content.batches(group, names, rows=rows)
                if group < len(content.groups)
                else iter(())
            )
            return _Cursor(file, start, batches, stack.pop_all(), begin=row)

    def _names(self, content: OpenedTable) -> list[str]:
        names: list[str] = content.schema.names
        return (
            names
            if self._schema is None
            else [name for name in names if name in self._schema.names]
        )

    def _block(self, batch: pyarrow.RecordBatch, file: InputFile, *, row: int) -> Block:
        if self._schema is None:
            return block_of(batch, self.columns)  # a file that is read alone
        errors: dict[int, RecordError] = {}
        columns: list[pyarrow.Array] = []
        partition = _path_columns(file)
        for wanted in self._schema:
            bad: list[int] = []
            if wanted.name in partition:
                column = pyarrow.repeat(partition[wanted.name], batch.num_rows).cast(wanted.type)
            elif batch.schema.get_field_index(wanted.name) < 0:
                column = pyarrow.nulls(batch.num_rows, wanted.type)
            else:
                given = batch.column(wanted.name)
                try:
                    column, bad = cast_exactly(given, wanted.type)
                except pyarrow.ArrowException as error:  # not one of the file
                    text = f"{file.name}: column {wanted.name!r} has type {given.type}, which cannot become {wanted.type}"
                    raise InputError(text, is_retryable=False) from error
            columns.append(column)
            text = f"the value of column {wanted.name!r} is not of type {wanted.type}"
            errors = {
                at: not_sent(f"{file.name}, row {row + at + 1}: {text}") for at in bad
            } | errors
        return block_of(
            pyarrow.RecordBatch.from_arrays(columns, schema=self._schema), self.columns, errors
        )


class _Cursor:
    """An open file, and the row that is read next."""

    def __init__(
        self,
        file: InputFile,
        row: int,
        batches: Iterator[pyarrow.RecordBatch],
        stack: ExitStack,
        *,
        begin: int,
    ) -> None:
        self.row = row
        self._file = file
        self._batches = batches
        self.close = weakref.finalize(self, stack.close)
        """Closes the file, which happens at the latest when nobody reads on."""

        self._held: pyarrow.RecordBatch | None = None
        while self.row < begin and self.next(begin) is not None:
            pass

    def is_at(self, file: InputFile, row: int) -> bool:
        """Whether a chunk that begins at a row of a file continues here."""
        return self._file is file and self.row == row

    def next(self, stop: int) -> pyarrow.RecordBatch | None:
        """Return the next rows before `stop`, at most a batch; None if there are none."""
        while self.row < stop:
            held = self._held if self._held is not None else next(self._batches, None)
            if held is None:
                return None
            taken = held.slice(0, stop - self.row)
            self._held = held.slice(taken.num_rows) if taken.num_rows < held.num_rows else None
            self.row += taken.num_rows
            if taken.num_rows:
                return taken
        return None


def _path_columns(file: InputFile) -> dict[str, pyarrow.Scalar]:
    found: dict[str, pyarrow.Scalar] = {}
    for name, value in partition_of(file).items():
        try:
            found[name] = scalar_of(value)
        except (pyarrow.ArrowException, ValueError) as error:
            text = f"{file.name}: the value of the partition {name!r} is not of type {value.kind}; change partitions.{name}"
            raise InputError(text, is_retryable=False) from error
    return found


def _row_bytes(content: OpenedTable, names: list[str]) -> float:
    """Return the bytes of a decoded row, as far as the file and the types say."""
    rows = max(1, sum(group.rows for group in content.groups))
    total = 0.0
    for name in names:
        stored = sum(group.sizes.get(name, 0) for group in content.groups) / rows
        total += max(stored, _width_of(content.schema.field(name).type))
    return max(total, 1.0)


def _width_of(kind: pyarrow.DataType) -> float:
    """Return the bytes of a value whose type has a width; 0 for others."""
    if pyarrow.types.is_fixed_size_list(kind):
        return float(kind.list_size * _width_of(kind.value_type))
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return 0


@contextmanager
def reading(file: InputFile, *, form: str) -> Iterator[None]:
    """Raise InputError for a file that is damaged. Errors of the operating system have a number,
    those of pyarrow do not."""
    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        with file.open() as source:
            kind = as_kind(source.read(HEAD), expected=form)
        what = (
            "a page is damaged, its checksum differs"
            if "CRC" in str(error)
            else type(error).__name__
        )
        text = f"{file.name} cannot be read as {form}: {what}{kind}"
        raise InputError(text, is_retryable=False) from error

"""The results of a chunk as record batches of the schema that all files of the run have, in bounded
memory.

A result that does not fit the schema is an error of its record: a prediction `invalid_prediction`,
another value `invalid_input`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby
from typing import BinaryIO, Final, Protocol

import pyarrow
from pyarrow import compute

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.columns import values_of
from inferrun.formats.exact_casts import normalized
from inferrun.formats.exact_json import exact_value, is_rounded
from inferrun.formats.json_columns import texts_in
from inferrun.formats.json_text import array_of, error_of, text_of
from inferrun.formats.record_errors import INVALID_PREDICTION, NOT_SENT
from inferrun.formats.record_texts import copied_texts
from inferrun.formats.result_schema import ERROR_TYPE, ResultSchema, Role, value_type
from inferrun.formats.table_reader import TableReader
from inferrun.formats.typed_values import array_of_column, array_of_texts, has_floats
from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Batch,
    CustomId,
    FormatAbilities,
    InputFile,
    Json,
    JsonRecords,
    ReadableResults,
    RecordError,
    RecordFormat,
    ResultCounts,
    Results,
    ResultWriter,
    StoredResult,
    join_results,
)

PIECE_BYTES: Final = 1 << 20
"""Memory of the results that are converted at once."""

ROWS_AT_ONCE: Final = 1024
"""Rows of a table that are read as Python values at once, which take several times as much
memory."""


class TableFile(Protocol):
    """A file of results that is written."""

    def write_batch(self, batch: pyarrow.RecordBatch) -> None:
        """Append rows."""

    def close(self) -> None:
        """Complete the file."""


class Place(Protocol):
    """Where rows are stored, if it lacks values of the types of the schema."""

    lacking: str
    """What it lacks, as the end of a sentence about a value."""

    def lacks(self, name: str, column: pyarrow.Array) -> set[int]:
        """Return the positions of the values of a column that it lacks."""


class TableResults(TableReader, ABC):
    """Reads columns, and writes tables of results."""

    results_suffix: str
    compressions: tuple[str, ...]
    """What is allowed. The first one is the default."""

    compression: str | None = None

    @property
    def abilities(self) -> FormatAbilities:
        """All of them."""
        return replace(
            super().abilities,
            has_typed_results=True,
            with_compression=self.with_compression,
            readable=ReadableResults(self.read_results, self.stored_batches, self.read_table),
            join_files=self.join_files,
        )

    def with_compression(self, name: str) -> RecordFormat:
        """Return the format with a compression. Raises ValueError."""
        if name not in self.compressions:
            raise ValueError(
                f"must be {', '.join(self.compressions[:-1])} or {self.compressions[-1]}, not {name!r}"
            )
        found = copy(self)
        found.compression = name
        return found

    @abstractmethod
    def create_table(self, out: BinaryIO, schema: pyarrow.Schema) -> TableFile:
        """Begin a file."""

    @abstractmethod
    def stored_batches(self, results: BinaryIO) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a file. Raises ValueError if it is not of this format."""

    @abstractmethod
    def read_table(self, content: bytes) -> pyarrow.Table:
        """Return the table in a file."""

    def writer(
        self, out: BinaryIO, errors: BinaryIO, *, schema: pyarrow.Schema | None = None
    ) -> ResultWriter:
        """Return a writer of one table."""
        if schema is None:
            raise ValueError("a table needs a schema")
        return TableWriter(schema, self.create_table, out, errors)

    def join_files(
        self, files: Sequence[InputFile], out: BinaryIO, schema: pyarrow.Schema | None = None
    ) -> None:
        """Write the rows of tables to one table."""
        if schema is None:
            raise ValueError("a table needs a schema")
        table = self.create_table(out, schema)
        for file in files:
            with file.open() as content:
                for batch in self.stored_batches(content):
                    table.write_batch(batch)
        table.close()

    def read_results(
        self,
        results: BinaryIO,
        errors: BinaryIO | None = None,  # noqa: ARG002  the seam's
    ) -> Iterator[StoredResult]:
        """Yield the rows of a result file."""
        for batch in self.stored_batches(results):
            for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield from rows_of(batch.slice(start, ROWS_AT_ONCE))


class TableWriter:
    """Converts results piece by piece."""

    def __init__(
        self,
        schema: pyarrow.Schema,
        create: Callable[[BinaryIO, pyarrow.Schema], TableFile],
        out: BinaryIO,
        errors: BinaryIO,
        *,
        place: Place | None = None,
    ) -> None:
        self._schema = ResultSchema(schema)
        self._place = place
        self._create = create
        self._file = create(out, schema)
        self._errors = errors
        self._error_file: TableFile | None = None
        self._held: list[tuple[Batch, Results]] = []
        self._size = 0
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        self._held.append((batch, results))
        self._size += results.values.nbytes + (
            batch.copied.nbytes if batch.copied is not None else 0
        )
        if self._size >= PIECE_BYTES:
            self._convert()

    def close(self) -> ResultCounts:
        """Write what is held, and complete the file."""
        self._convert()
        self._file.close()
        if self._error_file:
            self._error_file.close()
        return self._counts

    def _convert(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if not held:
            return
        piece = _Piece(held, self._schema, self._place)
        table = piece.table()
        self._file.write_batch(table)
        self._counts += ResultCounts(len(table) - len(piece.failures), len(piece.failures))
        if piece.failures:
            schema = self._schema.failed
            self._error_file = self._error_file or self._create(self._errors, schema)
            self._error_file.write_batch(
                table.take(pyarrow.array(sorted(piece.failures))).select(schema.names).cast(schema)
            )


class _Piece:
    """Consecutive rows of which one column after the other is converted."""

    def __init__(
        self, held: Sequence[tuple[Batch, Results]], schema: ResultSchema, place: Place | None
    ) -> None:
        self._held = held
        self._schema = schema
        self._place = place
        self.indexes = [
            index for batch, _ in held for index in range(batch.first, batch.first + len(batch))
        ]
        self.failures: dict[int, RecordError] = {}
        """The error of each row that has one, by its position."""

        self._members: list[dict[str, Json]] | None = None
        start = 0
        for batch, results in held:
            self.failures |= {start + at: error for at, error in results.errors.items()}
            start += len(batch)

    def table(self) -> pyarrow.RecordBatch:
        """Convert the rows. Those that have failed, or whose values do not fit, have an error and
        no prediction."""
        schema, columns = self._schema, dict[str, pyarrow.Array]()
        for name in schema.names(Role.INDEX):
            columns[name] = pyarrow.array(self.indexes, pyarrow.int64())
        for name in schema.names(Role.KEY):
            kind = schema.arrow.field(name).type
            columns[name] = self._fitting(name, kind, self._keys(name, kind), code=NOT_SENT)
        for name in schema.names(Role.COPIED):
            kind = value_type(schema.arrow.field(name))
            columns[name] = self._fitting(name, kind, self._copied(name, kind), code=NOT_SENT)
        kind = schema.predicted
        predicted = self._fitting(
            Role.PREDICTION.value, kind, self._predictions(kind), code=INVALID_PREDICTION
        )
        outputs = predicted.flatten() if schema.is_flat else [predicted]
        if self.failures:
            is_valid = pyarrow.array([row not in self.failures for row in range(len(self.indexes))])
            outputs = [
                compute.if_else(is_valid, one, pyarrow.scalar(None, one.type)) for one in outputs
            ]
        columns |= zip(schema.names(Role.PREDICTION), outputs, strict=True)
        errors = [
            None if error is None else {name: getattr(error, name) for name in ERROR_TYPE.names}
            for error in map(self.failures.get, range(len(self.indexes)))
        ]
        columns |= {name: pyarrow.array(errors, ERROR_TYPE) for name in schema.names(Role.ERROR)}
        return pyarrow.RecordBatch.from_arrays(
            [columns[one.name] for one in schema.arrow], schema=schema.arrow
        )

    def _fitting(
        self,
        name: str,
        kind: pyarrow.DataType,
        converted: tuple[pyarrow.Array, list[int]],
        *,
        code: str,
    ) -> pyarrow.Array:
        """Return a converted column. Rows of which the value does not fit get an error unless they
        have one."""
        column, faults = converted
        text = (
            f"the value of column {name!r} is not of type {kind}, the type that it has in all results of the run; "
            f"set types.{name} of the output to another type"
        )
        self.failures |= {
            row: RecordError(code, text) for row in faults if row not in self.failures
        }
        if self._place and (lacking := self._place.lacks(name, column)):
            text = f"the value of column {name!r} has {self._place.lacking}"
            self.failures |= {
                row: RecordError(code, text) for row in lacking if row not in self.failures
            }
            column = column.take(
                pyarrow.array([None if at in lacking else at for at in range(len(column))])
            )
        return column

    def _keys(self, name: str, kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
        parts = []
        for batch, _ in self._held:
            ids: Sequence[CustomId] = batch.ids or [None] * len(batch)
            if isinstance(batch.copied, ArrowRecords) and name in batch.copied.table.schema.names:
                parts.append(array_of_column(batch.copied.table.column(name), kind))
            elif pyarrow.types.is_string(kind):
                parts.append(
                    (pyarrow.array([None if one is None else str(one) for one in ids], kind), [])
                )
            else:
                parts.append(array_of_texts([text_of(one) for one in ids], kind))
        return _concatenated(parts)

    def _copied(self, name: str, kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
        tables = [
            batch.copied.table for batch, _ in self._held if isinstance(batch.copied, ArrowRecords)
        ]
        if len(tables) == len(self._held):
            columns = _joined([values_of(table, name) for table in tables])
            return _concatenated([array_of_column(one, kind) for one in columns])
        if self._members is None:
            texts = [
                text
                for batch, _ in self._held
                for text in (copied_texts(batch) or [b""] * len(batch))
            ]
            self._members = exact_value(array_of([b"{%b}" % text for text in texts]))
            known = {*self._schema.names(Role.COPIED)}
            for row, members in enumerate(self._members):
                if row not in self.failures and (unknown := members.keys() - known):
                    text = f"the column {min(unknown)!r} is not in the first records, so the results have no such column; name the"
                    self.failures[row] = RecordError(
                        NOT_SENT, f"{text} columns in passThroughColumns"
                    )
        values = [one.get(name) for one in self._members]
        column, faults = array_of_texts([text_of(one) for one in values], kind)
        if has_floats(kind) and (
            rounded := [at for at, one in enumerate(values) if is_rounded(one)]
        ):
            faults = sorted({*faults, *rounded})
            kept = [None if at in rounded else at for at in range(len(values))]
            column = column.take(pyarrow.array(kept, pyarrow.int64()))
        return column, faults

    def _predictions(self, kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
        """Those of consecutive batches in the same form are converted at once."""
        parts: list[tuple[pyarrow.Array, list[int]]] = []
        for _, some in groupby((results for _, results in self._held), _form_of):
            results = join_results(list(some))
            if isinstance(results.values, JsonRecords):
                texts = [
                    b"null" if at in results.errors else text
                    for at, text in enumerate(results.values.texts)
                ]
                parts.append(array_of_texts(texts, kind))
            else:
                parts.append(array_of_column(results.values.table.column(0), kind))
        return _concatenated(parts)


def _form_of(results: Results) -> tuple[type, pyarrow.Schema | None]:
    values = results.values
    return type(values), values.schema if isinstance(values, ArrowRecords) else None


def _joined(columns: Sequence[pyarrow.Array]) -> list[pyarrow.Array]:
    """Join consecutive columns of the same type, unless they are stored in a way that may differ:
    dictionaries, views, runs."""
    found = list[pyarrow.Array]()
    for kind, some in groupby(columns, lambda one: one.type):
        same = list(some)
        found += [pyarrow.concat_arrays(same)] if normalized(kind) == kind else same
    return found


def _concatenated(
    parts: Sequence[tuple[pyarrow.Array, list[int]]],
) -> tuple[pyarrow.Array, list[int]]:
    faults: list[int] = []
    start = 0
    for column, some in parts:
        faults += [start + at for at in some]
        start += len(column)
    return pyarrow.concat_arrays([column for column, _ in parts]), faults


def rows_of(table: pyarrow.RecordBatch) -> Iterator[StoredResult]:
    """Yield the results in rows of a table. Raises ValueError for another table."""
    names = table.schema.names
    if not {Role.INDEX, Role.PREDICTION, Role.ERROR} <= set(names):
        raise ValueError("the table does not have the columns of results")
    ids = table.column(ID_COLUMN).to_pylist() if ID_COLUMN in names else [None] * len(table)
    copied = [name for name in names if name not in RESULT_MEMBERS]
    columns = [_values_of(table, name) for name in copied]
    rows = zip(
        table.column(Role.INDEX).to_pylist(),
        ids,
        [_members(copied, texts) for texts in zip(*columns, strict=True)] or [b""] * len(table),
        _values_of(table, Role.PREDICTION),
        table.column(Role.ERROR).to_pylist(),
        strict=True,
    )
    for index, custom_id, members, prediction, error in rows:
        failure = None if error is None else error_of(error)
        yield StoredResult(index, custom_id, members, b"" if failure else prediction, failure)


def _values_of(table: pyarrow.RecordBatch, name: str) -> list[bytes]:
    """Return the values of a column as JSON texts."""
    return [text or b"null" for text in texts_in(values_of(table, name))]


def _members(names: Sequence[str], texts: Sequence[bytes]) -> bytes:
    return b",".join(
        b"%b:%b" % (text_of(name), text) for name, text in zip(names, texts, strict=True)
    )

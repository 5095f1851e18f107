"""The results of a chunk as record batches of the schema that all files of the run have, in bounded memory.

A result that does not fit the schema is an error of its record: a prediction `invalid_prediction`, another value `invalid_input`.
"""

from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

import orjson
import pyarrow
from pyarrow import compute

from inferrun.formats.json_text import copied_texts, text_of
from inferrun.formats.jsonl.results import error_line
from inferrun.formats.record_errors import INVALID_PREDICTION, NOT_SENT
from inferrun.formats.result_schema import ERROR_TYPE, ResultSchema, Role, value_type
from inferrun.formats.typed_values import array_of_column, array_of_texts
from inferrun.plugins import (
    ArrowRecords,
    Batch,
    CustomId,
    Json,
    JsonRecords,
    RecordError,
    ResultCounts,
    Results,
)

PIECE_BYTES: Final = 1 << 20
"""Memory of the results that are converted at once."""


class TableWriter:
    """Converts results piece by piece."""

    def __init__(
        self,
        schema: pyarrow.Schema,
        errors: BinaryIO,
        *,
        store: Callable[[pyarrow.RecordBatch], None],
        finish: Callable[[], None],
    ) -> None:
        """`store` writes rows, and `finish` completes the file."""
        self._schema = ResultSchema(schema)
        self._errors = errors
        self._store = store
        self._finish = finish
        self._held: list[tuple[Batch, Results]] = []
        self._size = 0
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        self._held.append((batch, results))
        self._size += results.values.nbytes + (batch.copied.nbytes if batch.copied is not None else 0)
        if self._size >= PIECE_BYTES:
            self._convert()

    def close(self) -> ResultCounts:
        """Write what is held, and complete the file."""
        self._convert()
        self._finish()
        return self._counts

    def _convert(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if not held:
            return
        piece = _Piece(held, self._schema)
        for field in self._schema.arrow:
            piece.add(field)
        self._store(piece.table())
        self._counts += ResultCounts(piece.rows - len(piece.failures), len(piece.failures))
        if piece.failures:
            ids = [one for batch, _ in held for one in (batch.ids or [None] * len(batch))]
            texts = [text for batch, _ in held for text in (copied_texts(batch) or [b""] * len(batch))]
            for row, error in sorted(piece.failures.items()):
                self._errors.write(error_line(piece.indexes[row], ids[row], texts[row], error))


class _Piece:
    """Consecutive rows of which one column after the other is converted."""

    def __init__(self, held: Sequence[tuple[Batch, Results]], schema: ResultSchema) -> None:
        self._held = held
        self._schema = schema
        self.indexes = [index for batch, _ in held for index in range(batch.first, batch.first + len(batch))]
        self.rows = len(self.indexes)
        self.failures: dict[int, RecordError] = {}
        """By the position of the row."""

        self._columns: dict[str, pyarrow.Array] = {}
        self._members: list[dict[str, Json]] | None = None
        start = 0
        for batch, results in held:
            self.failures |= {start + at: error for at, error in results.errors.items()}
            start += len(batch)

    def add(self, field: pyarrow.Field) -> None:
        """Convert the values of a column that is not one of errors."""
        names = self._schema.names
        if field.name in names(Role.INDEX):
            self._columns[field.name] = pyarrow.array(self.indexes, pyarrow.int64())
        elif field.name in names(Role.KEY):
            self._keep(field, self._keys(field), code=NOT_SENT)
        elif field.name in names(Role.COPIED):
            self._keep(field, self._copied(field), code=NOT_SENT)
        elif not self._schema.is_flat and field.name in names(Role.PREDICTION):
            self._keep(field, self._predictions(value_type(field)), code=INVALID_PREDICTION)

    def table(self) -> pyarrow.RecordBatch:
        """Return the rows; those that have failed have no prediction."""
        if self._schema.is_flat:
            fields = [self._schema.arrow.field(name) for name in self._schema.names(Role.PREDICTION)]
            whole = pyarrow.struct([pyarrow.field(one.name, value_type(one)) for one in fields])
            column = self._fitting(
                pyarrow.field(Role.PREDICTION, whole), self._predictions(whole), code=INVALID_PREDICTION
            )
            self._columns |= dict(zip(whole.names, column.flatten(), strict=True))
        predictions = self._schema.names(Role.PREDICTION)
        if self.failures:
            is_valid = pyarrow.array([row not in self.failures for row in range(self.rows)])
            for name in predictions:
                column = self._columns[name]
                self._columns[name] = compute.if_else(is_valid, column, pyarrow.scalar(None, column.type))
        errors = [
            None if error is None else {name: getattr(error, name) for name in ERROR_TYPE.names}
            for error in map(self.failures.get, range(self.rows))
        ]
        (name,) = self._schema.names(Role.ERROR)
        self._columns[name] = pyarrow.array(errors, ERROR_TYPE)
        return pyarrow.RecordBatch.from_arrays(
            [self._columns[one.name] for one in self._schema.arrow], schema=self._schema.arrow
        )

    def _keep(self, field: pyarrow.Field, converted: tuple[pyarrow.Array, list[int]], *, code: str) -> None:
        self._columns[field.name] = self._fitting(field, converted, code=code)

    def _fitting(self, field: pyarrow.Field, converted: tuple[pyarrow.Array, list[int]], *, code: str) -> pyarrow.Array:
        column, faults = converted
        for row in faults:
            if row not in self.failures:
                text = (
                    f"the value of column {field.name!r} is not of type {value_type(field)}, the type that it has in all results "
                    f"of the run; set types.{field.name} of the output to another type"
                )
                self.failures[row] = RecordError(code, text)
        return column

    def _keys(self, field: pyarrow.Field) -> tuple[pyarrow.Array, list[int]]:
        return self._joined(lambda batch: self._ids_of(batch, field))

    def _ids_of(self, batch: Batch, field: pyarrow.Field) -> tuple[pyarrow.Array, list[int]]:
        if isinstance(batch.copied, ArrowRecords) and field.name in batch.copied.table.schema.names:
            return array_of_column(batch.copied.table.column(field.name), field.type)
        ids: Sequence[CustomId] = batch.ids or [None] * len(batch)
        if pyarrow.types.is_string(field.type):
            return pyarrow.array([None if one is None else str(one) for one in ids], field.type), []
        return array_of_texts([text_of(one) for one in ids], field.type)

    def _copied(self, field: pyarrow.Field) -> tuple[pyarrow.Array, list[int]]:
        kind = value_type(field)
        if all(isinstance(batch.copied, ArrowRecords) for batch, _ in self._held):
            return self._joined(lambda batch: array_of_column(_column_of(batch, field.name), kind))
        if self._members is None:
            texts = [text for batch, _ in self._held for text in (copied_texts(batch) or [b""] * len(batch))]
            self._members = orjson.loads(b"[%b]" % b",".join(b"{%b}" % text for text in texts))
            known = {*self._schema.names(Role.COPIED)}
            for row, members in enumerate(self._members):
                if row not in self.failures and (unknown := members.keys() - known):
                    text = f"the column {min(unknown)!r} is not in the first records, so the results have no such column; name the"
                    self.failures[row] = RecordError(NOT_SENT, f"{text} columns in passThroughColumns")
        return array_of_texts([text_of(one.get(field.name)) for one in self._members], kind)

    def _predictions(self, kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
        if all(isinstance(results.values, JsonRecords) for _, results in self._held):
            texts = [text for _, results in self._held for text in _texts_of(results)]
            return array_of_texts(texts, kind)
        parts = []
        for _, results in self._held:
            if isinstance(results.values, ArrowRecords):
                parts.append(array_of_column(results.values.table.column(0), kind))
            else:
                parts.append(array_of_texts(_texts_of(results), kind))
        return _concatenated(parts)

    def _joined(self, convert: Callable[[Batch], tuple[pyarrow.Array, list[int]]]) -> tuple[pyarrow.Array, list[int]]:
        return _concatenated([convert(batch) for batch, _ in self._held])


def _concatenated(parts: Sequence[tuple[pyarrow.Array, list[int]]]) -> tuple[pyarrow.Array, list[int]]:
    faults: list[int] = []
    start = 0
    for column, some in parts:
        faults += [start + at for at in some]
        start += len(column)
    return pyarrow.concat_arrays([column for column, _ in parts]), faults


def _column_of(batch: Batch, name: str) -> pyarrow.Array:
    assert isinstance(batch.copied, ArrowRecords)  # noqa: S101  the caller has checked it
    return batch.copied.table.column(name)


def _texts_of(results: Results) -> Sequence[bytes]:
    """Return the predictions, null for records that failed."""
    assert isinstance(results.values, JsonRecords)  # noqa: S101  the caller has checked it
    texts = results.values.texts
    if not results.errors:
        return texts
    return [b"null" if at in results.errors else text for at, text in enumerate(texts)]

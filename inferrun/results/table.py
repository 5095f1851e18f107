"""The results of a run as rows, record batches, or the tables of other packages. Each part is in
memory, one at a time."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from inferrun.contract import RESULT_MEMBERS
from inferrun.manifest import Manifest
from inferrun.plugins import CustomId, Json, RecordError, StoredResult
from inferrun.results.access import load
from inferrun.results.errors import InputChanged, ResultsError
from inferrun.results.stores import Part, PartStore

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Row: TypeAlias = dict[str, Any]  # Any: JSON, which its reader knows

InputRow: TypeAlias = tuple[Row, CustomId]
"""The columns of a record of the input, and its id."""

ReadInput: TypeAlias = Callable[[], Iterator[InputRow]]
"""Yields the records of the input, in order. Raises ResultsError."""

_INDEX, _ID, _PREDICTION, _ERROR = RESULT_MEMBERS
_PARTS_OF_ERROR = ("code", "message", "attempts")


class Only(Enum):
    """Which records are read."""

    ALL = "all"
    PREDICTIONS = "predictions"
    ERRORS = "errors"


class PredictedRows:
    """One row per record, in the order of the input, with the members `index`, `custom_id`, the
    columns that were copied or joined, `prediction` and `error`.

    `predictions` and `errors` are the same with some of the records only: those with a prediction,
    without the member `error`; and those that failed, with `error_code`, `error_message` and
    `error_attempts` in place of the last two.
    """

    def __init__(
        self,
        store: PartStore,
        manifest: Manifest,
        *,
        read_input: ReadInput | None = None,
        only: Only = Only.ALL,
    ) -> None:
        self.manifest = manifest
        """The manifest, with the counts, the model and the tokens."""

        self._store = store
        self._read_input = read_input
        self._only = only

    @property
    def predictions(self) -> "PredictedRows":
        """Only the records with a prediction."""
        return PredictedRows(
            self._store, self.manifest, read_input=self._read_input, only=Only.PREDICTIONS
        )

    @property
    def errors(self) -> "PredictedRows":
        """Only the records that failed. Parts without any are not read."""
        return PredictedRows(
            self._store, self.manifest, read_input=self._read_input, only=Only.ERRORS
        )

    def __len__(self) -> int:
        """The number of rows."""
        records = self.manifest.records
        return {
            Only.ALL: records.total,
            Only.PREDICTIONS: records.completed,
            Only.ERRORS: records.failed,
        }[self._only]

    def __repr__(self) -> str:
        return f"<{len(self)} {'results' if self._only is Only.ALL else self._only.value} in {self._store.location}>"

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows. Integers of any size are exact, and other numbers the nearest of Python.
        Raises ResultsError."""
        for row in self._wanted_rows():
            yield _rounded(row)

    def json_lines(self) -> Iterator[bytes]:
        """Yield the rows as JSON texts without rounding a number. Raises ResultsError."""
        dumps = load("orjson").dumps
        return (dumps(row, default=str) for row in self._wanted_rows())

    def stored(self) -> Iterator[StoredResult]:
        """Yield all results as they are stored, in order, without decoding a prediction. Raises
        ResultsError."""
        for part in self._store.read(self.manifest.parts):
            yield from self._results_in(part)

    def _wanted_rows(self) -> Iterator[Row]:
        for rows in self._rows():
            for row in rows:
                error = row[_ERROR]
                if self._only is Only.ALL:
                    yield row
                elif isinstance(error, dict) and self._only is Only.ERRORS:
                    others = {
                        name: value
                        for name, value in row.items()
                        if name not in (_PREDICTION, _ERROR)
                    }
                    yield others | {f"error_{name}": value for name, value in error.items()}
                elif error is None and self._only is Only.PREDICTIONS:
                    yield {name: value for name, value in row.items() if name != _ERROR}

    @property
    def schema(self) -> "pyarrow.Schema":
        """The schema of `batches`. To find it, all parts are read once."""
        return self._selected(self._no_rows).schema

    def batches(self) -> Iterator["pyarrow.RecordBatch"]:
        """Yield the rows as record batches, which all have the same schema. To find it, the parts
        are read twice.

        Values that have no type in common are JSON texts; the metadata of the column is then
        `inferrun: json`. Needs pyarrow.
        """
        tables = load("inferrun.results.typed_tables")
        for table in self._tables():
            found = tables.joined([self._no_rows, table])
            if found.schema != self._no_rows.schema:
                raise ResultsError(
                    "an integer among floating-point numbers is too large to be one; read with to_arrow(), or row by row"
                )
            yield from self._selected(found).combine_chunks().to_batches()

    def to_arrow(self) -> "pyarrow.Table":
        """Return all rows as a table, with columns as in `batches`. Needs pyarrow."""
        tables = load("inferrun.results.typed_tables")
        return self._selected(tables.joined(list(self._tables())))

    def to_pandas(self) -> "pandas.DataFrame":
        """Return all rows as a data frame of pandas."""
        load("pandas", extra="pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> "polars.DataFrame":
        """Return all rows as a data frame of polars."""
        frame: polars.DataFrame = load("polars", extra="polars").from_arrow(self.to_arrow())
        return frame

    @cached_property
    def _no_rows(self) -> "pyarrow.Table":
        tables = load("inferrun.results.typed_tables")
        # so all parts have the same
        has_columns = self.manifest.columns and self._read_input is None
        found = islice(self._tables(), 2) if has_columns else self._tables()
        return tables.joined([table.schema.empty_table() for table in found])

    def _parts(self) -> Iterator[Part]:
        return self._store.read(
            part for part in self.manifest.parts if part.failed or self._only is not Only.ERRORS
        )

    def _rows(self) -> Iterator[Iterable[Row]]:
        """Yield the rows of one part after the other, whatever `only` is."""
        given = self._read_input() if self._read_input else None
        position = 0
        for part in self._parts():
            stored = self._results_in(part)
            if given is None:
                yield map(_row_of, stored)
                continue
            first, records = part.committed.first, part.committed.records
            inputs = list(islice(given, first - position, first - position + records))
            position = first + records
            if len(inputs) < records:
                raise InputChanged(
                    f"the input has fewer than the {self.manifest.records.total} records that the run read"
                )
            yield [_joined_row(one, inputs[one.index - first]) for one in stored]
        if (
            given is not None
            and position == self.manifest.records.total
            and next(given, None) is not None
        ):
            raise InputChanged(f"the input has more than the {position} records that the run read")

    def _results_in(self, part: Part) -> Iterator[StoredResult]:
        try:
            yield from self._store.readable.read(
                io.BytesIO(part.results), io.BytesIO(part.errors) if part.errors else None
            )
        except ValueError as error:
            raise ResultsError(
                f"{self._store.location}/{part.committed.file} cannot be read: {error}"
            ) from error

    def _tables(self) -> Iterator["pyarrow.Table"]:
        """Yield the tables of the parts, with the columns `prediction` and `error` and only the
        rows that are wanted."""
        tables = load("inferrun.results.typed_tables")
        yield tables.typed_table([], {_PREDICTION: []}, [])
        read_table = self._store.readable.read_table
        if self._read_input is None and read_table:
            found = (read_table(part.results) for part in self._parts())
        else:
            found = (_table_of(rows) for rows in self._rows())
        for table in found:
            failed = table.column(_ERROR).is_valid()
            wanted = {
                Only.ALL: None,
                Only.ERRORS: failed,
                Only.PREDICTIONS: table.column(_ERROR).is_null(),
            }[self._only]
            yield table if wanted is None else table.filter(wanted)

    def _selected(self, table: "pyarrow.Table") -> "pyarrow.Table":
        """Return the columns that are wanted."""
        if self._only is Only.ALL:
            return table
        if self._only is Only.PREDICTIONS:
            return table.drop_columns([_ERROR])
        compute = load("pyarrow.compute")
        parts = [compute.struct_field(table.column(_ERROR), name) for name in _PARTS_OF_ERROR]
        table = table.drop_columns([_PREDICTION, _ERROR])
        for name, values in zip(_PARTS_OF_ERROR, parts, strict=True):
            table = table.append_column(f"error_{name}", values)
        return table


def _row_of(stored: StoredResult) -> Row:
    """Return the members with exact numbers; see `inferrun.formats.exact_json`."""
    loads = load("inferrun.formats.exact_json").exact_value
    error = stored.error
    return {
        _INDEX: stored.index,
        _ID: stored.custom_id,
        **loads(b"{%b}" % stored.copied),
        _PREDICTION: None if error else loads(stored.prediction),
        _ERROR: {name: getattr(error, name) for name in _PARTS_OF_ERROR} if error else None,
    }


def _rounded(row: Row) -> Row:
    if not load("inferrun.formats.exact_json").is_rounded(row):
        return row
    found: Row = json.loads(load("orjson").dumps(row, default=str))
    return found


def _joined_row(stored: StoredResult, given: InputRow) -> Row:
    columns, custom_id = given
    if None not in (custom_id, stored.custom_id) and str(custom_id) != str(stored.custom_id):
        raise InputChanged(
            f"record {stored.index} of the input has another custom_id than when the run read it; it has changed since"
        )
    row = _row_of(stored)
    return {_INDEX: stored.index, _ID: stored.custom_id, **columns, **row}


def _table_of(rows: Iterable[Row]) -> "pyarrow.Table":
    tables = load("inferrun.results.typed_tables")
    held = list(rows)
    names = dict.fromkeys(name for row in held for name in row if name not in (_INDEX, _ERROR))
    columns: dict[str, Sequence[Json]] = {name: [row.get(name) for row in held] for name in names}
    ids = columns.get(_ID, ())
    if all(one is None for one in ids):
        columns.pop(_ID, None)
    elif not {type(one) for one in ids} <= {int, type(None)}:
        columns[_ID] = [None if one is None else str(one) for one in ids]
    failures = [RecordError(**row[_ERROR]) if row[_ERROR] else None for row in held]
    return tables.typed_table([row[_INDEX] for row in held], columns, failures)

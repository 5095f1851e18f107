"""The results of a chunk as a table, for formats with columns: one row per record, in order.

The columns are `index` (64-bit integers), `custom_id` if the input has ids, the columns that are copied, `prediction` (null for a
failed record) and `error` (null for the others), a struct of `code`, `message` and `attempts`. Ids, copied columns and predictions
have the type of their values in the chunk: numbers, texts, lists, structs. Values without a common type, such as numbers and texts,
are stored as their JSON texts, and the column's metadata says so. Imports pyarrow, so only runs with such a format load it.
"""

from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

import pyarrow

from inferrun.plugins import ID_COLUMN, Batch, Json, ResultCounts, Results
from runner.collected_results import ERROR, INDEX, PREDICTION, CollectedResults
from runner.json_text import text_of

_ERROR_TYPE: Final = pyarrow.struct(
    [("code", pyarrow.string()), ("message", pyarrow.string()), ("attempts", pyarrow.int64())]
)

_JSON_TEXT: Final = {"inferrun": "json"}
"""Metadata of a column of JSON texts."""

Encode = Callable[[pyarrow.Table], pyarrow.Buffer]
"""Returns the content of a file with a table."""


class TableWriter:
    """Writes the results of a chunk as one table. A column has one type, so the rows are in memory until the last one is known."""

    def __init__(self, out: BinaryIO, errors: BinaryIO, *, encode: Encode) -> None:
        self._out = out
        self._encode = encode
        self._rows = CollectedResults(errors)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        self._rows.add(batch, results)

    def close(self) -> ResultCounts:
        """Write the table, and return the numbers of results."""
        self._out.write(memoryview(self._encode(_table(self._rows))))
        return self._rows.counts


def predictions_of(table: pyarrow.Table) -> dict[int, bytes]:
    """Return the predictions of a table as JSON texts by the index of their records. Raises ValueError for another table."""
    if not {INDEX, PREDICTION, ERROR} <= set(table.schema.names):
        raise ValueError("the table does not have the columns of results")
    is_json = (table.schema.field(PREDICTION).metadata or {}).get(b"inferrun") == b"json"
    rows = zip(*(table.column(name).to_pylist() for name in (INDEX, PREDICTION, ERROR)), strict=True)
    return {index: value.encode() if is_json else text_of(value) for index, value, error in rows if error is None}


def _table(rows: CollectedResults) -> pyarrow.Table:
    columns = {INDEX: pyarrow.array(rows.indexes, pyarrow.int64())}
    texts = set()
    values: dict[str, Sequence[Json]] = {ID_COLUMN: _ids(rows)} if rows.has_ids else {}
    values |= rows.copied_columns()
    values[PREDICTION] = rows.predictions()
    for name, column in values.items():
        found = _typed(column)
        if found is None:
            texts.add(name)
            found = pyarrow.array([None if one is None else text_of(one).decode() for one in column], pyarrow.string())
        columns[name] = found
    columns[ERROR] = pyarrow.array(_errors(rows), _ERROR_TYPE)
    fields = [
        pyarrow.field(name, column.type, metadata=_JSON_TEXT if name in texts else None)
        for name, column in columns.items()
    ]
    return pyarrow.Table.from_arrays(list(columns.values()), schema=pyarrow.schema(fields))


def _ids(rows: CollectedResults) -> Sequence[Json]:
    """Return integers if all ids are, otherwise texts."""
    if {type(one) for one in rows.ids} <= {int, type(None)}:
        return rows.ids
    return [None if one is None else str(one) for one in rows.ids]


def _errors(rows: CollectedResults) -> list[dict[str, Json] | None]:
    failures = map(rows.failures.get, range(len(rows.indexes)))
    return [{"code": one.code, "message": one.message, "attempts": one.attempts} if one else None for one in failures]


def _typed(values: Sequence[Json]) -> pyarrow.Array | None:
    """Return the values as they are; None if they have no common type, or objects have different members."""
    if len({tuple(value) for value in values if isinstance(value, dict)}) > 1:
        return None
    try:
        found = pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return found if _is_storable(found.type) else None


def _is_storable(kind: pyarrow.DataType) -> bool:
    """Whether each struct within a type has members: Parquet stores no others."""
    children = [kind.field(at).type for at in range(kind.num_fields)]
    return not (pyarrow.types.is_struct(kind) and not children) and all(map(_is_storable, children))

"""Stored results that are tables as records: what is copied keeps its type, and columns feed the
model as those of files do. Pure.

What is no column of the table, such as a member of a prediction that is JSON, is taken from rows:
see `inferrun.formats.stored_records`. Imports pyarrow.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.columns import is_tensor, values_of
from inferrun.formats.json_text import error_of
from inferrun.formats.result_schema import Role
from inferrun.formats.stored_records import block_of_rows, failed_before
from inferrun.formats.table_results import ROWS_AT_ONCE, rows_of
from inferrun.plugins import ID_COLUMN, ArrowRecords, Block, ColumnSelection
from inferrun.plugins.limits import MIB


@dataclass(frozen=True, slots=True)
class TableRow:
    """The result of one record: a row of a table."""

    index: int
    """Index of the record within the whole input."""

    table: pyarrow.RecordBatch
    at: int


def table_rows(tables: Iterable[pyarrow.RecordBatch]) -> Iterator[TableRow]:
    """Yield the rows of tables. Raises ValueError for one that does not have the columns of
    results."""
    for table in tables:
        if not {Role.INDEX, Role.PREDICTION, Role.ERROR} <= set(table.schema.names):
            raise ValueError("the table does not have the columns of results")
        for at, index in enumerate(table.column(Role.INDEX).to_pylist()):
            yield TableRow(index, table, at)


def blocks_of_tables(
    rows: Iterable[TableRow], columns: ColumnSelection, *, run: str
) -> Iterator[Block]:
    """Yield the results of a run as records, in blocks of about a megabyte."""
    for _, group in groupby(rows, key=lambda row: id(row.table)):
        held = list(group)
        table = held[0].table.slice(held[0].at, len(held))
        size = max(1, min(ROWS_AT_ONCE, len(table) * MIB // max(table.nbytes, 1)))
        for start in range(0, len(table), size):
            yield _block(table.slice(start, size), columns, run=run)


def _block(table: pyarrow.RecordBatch, columns: ColumnSelection, *, run: str) -> Block:
    names = table.schema.names
    key = [ID_COLUMN] if ID_COLUMN in names else []
    others = [name for name in names if name not in RESULT_MEMBERS]
    copied = (
        _columns_in(table, [*key, *(others if columns.copies_all else columns.copied)])
        if columns.copies_any
        else None
    )
    fed = _columns_in(table, columns.fed) if columns.fed and not columns.takes_any else None
    if (
        fed is not None
        and all(map(is_tensor, fed.schema.types))
        and (copied is not None or not columns.copies_any)
    ):
        ids = table.column(ID_COLUMN).to_pylist() if key else ()
        failed = enumerate(
            zip(
                table.column(Role.INDEX).to_pylist(),
                table.column(Role.ERROR).to_pylist(),
                strict=True,
            )
        )
        errors = {
            at: failed_before(run, index, error_of(error))
            for at, (index, error) in failed
            if error is not None
        }
        return Block(
            ArrowRecords(fed),
            ids,
            ArrowRecords(copied) if copied is not None else None,
            errors=errors,
        )
    if not columns.takes_any:  # a tensor, whose numbers may be of 64 bits
        table = table.cast(
            pyarrow.schema([one.with_type(_widened(one.type)) for one in table.schema])
        )
    if copied is None:
        return block_of_rows(list(rows_of(table)), columns, run=run)
    block = block_of_rows(
        list(rows_of(table)), replace(columns, copied=(), copies_all=False), run=run
    )
    return replace(block, copied=ArrowRecords(copied))


def _widened(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type with 64 bits for floating-point numbers of 32 bits, whose shortest text would
    become another number."""
    types = pyarrow.types
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        item = _widened(kind.value_type)
        return pyarrow.list_(item, kind.list_size if types.is_fixed_size_list(kind) else -1)
    return pyarrow.float64() if types.is_float32(kind) else kind


def _columns_in(table: pyarrow.RecordBatch, names: Sequence[str]) -> pyarrow.RecordBatch | None:
    """Return columns, and members of predictions that are structs; None if one of the names is
    neither."""
    found = [_column_in(table, name) for name in names]
    return (
        None
        if any(one is None for one in found)
        else pyarrow.RecordBatch.from_arrays(found, names=list(names))
    )


def _column_in(table: pyarrow.RecordBatch, name: str) -> pyarrow.Array | None:
    if name in table.schema.names:
        return values_of(table, name)
    column = values_of(table, Role.PREDICTION)
    first, *path = name.split(".")
    if first != Role.PREDICTION:
        return None
    for member in path:
        if not pyarrow.types.is_struct(column.type) or column.type.get_field_index(member) < 0:
            return None
        column = column.flatten()[column.type.get_field_index(member)]
    return column

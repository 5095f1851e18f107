"""Predictions that are known to fit their type, as Python's values until they are stored. pyarrow is
imported only when there are some."""

import re
from collections.abc import Callable, Mapping, Sequence
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from inferrun.plugins import ArrowRecords, Records

if TYPE_CHECKING:
    import pyarrow

Row: TypeAlias = Mapping[str, Any] | None  # Any: JSON
"""A prediction; None in place of a failed one."""

Sure: TypeAlias = Mapping[str, Callable[[Any], bool]]  # Any: as above
"""What finds values that surely fit each member of a type."""


class PendingRows(ArrowRecords):
    """Predictions that are known to fit their type, as Python's values. They become columns when
    these are needed: many at a time cost a fifth of what they cost one by one."""

    __slots__ = ("_kind", "_rows")

    _rows: Sequence[Row]
    _kind: "pyarrow.DataType"

    def __init__(self, rows: Sequence[Row], kind: "pyarrow.DataType") -> None:
        # ArrowRecords is frozen
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_nbytes", sum(map(_size_of, rows)))

    @property
    def table(self) -> "pyarrow.RecordBatch":
        """The columns, which are made anew each time."""
        import pyarrow  # noqa: PLC0415  only typed results pay for its import

        return pyarrow.record_batch([pyarrow.array(self._rows, self._kind)], self.schema)

    @property
    def schema(self) -> "pyarrow.Schema":
        """Name and type of the column."""
        import pyarrow  # noqa: PLC0415  as above

        return pyarrow.schema([("prediction", self._kind)])

    def __len__(self) -> int:
        return len(self._rows)

    def part(self, start: int, stop: int) -> "ArrowRecords":
        """Return some rows."""
        return PendingRows(self._rows[start:stop], self._kind)

    def join(self, others: Sequence[Records]) -> ArrowRecords:
        """Append other rows, as they are if all are pending."""
        pending = [one for one in others if isinstance(one, PendingRows)]
        if len(pending) < len(others):
            return super().join(others)
        return PendingRows(
            [*self._rows, *(row for one in pending for row in one._rows)], self._kind
        )


def _size_of(row: Row) -> int:
    return _ROW_BYTES + (sum(map(getsizeof, row.values())) if row else 0)


_ROW_BYTES: Final = 240
"""Memory of a dictionary with a few members."""


def sure_members(kind: "pyarrow.DataType") -> Sure | None:
    """Return what finds values that surely fit each member of a type; None if it has a member that
    needs a closer look."""
    import pyarrow  # noqa: PLC0415  as above

    if not pyarrow.types.is_struct(kind):
        return None
    known = {
        pyarrow.string(): _is_text,
        pyarrow.int64(): _is_long,
        pyarrow.float64(): _is_float,
        pyarrow.bool_(): _is_bool,
    }
    if any(field.type not in known for field in kind):
        return None
    return {field.name: known[field.type] for field in kind}


def are_sure(row: Row, sure: Sure) -> bool:
    """Whether a row surely fits the type, or is none."""
    return row is None or (
        row.keys() == sure.keys()
        and all(value is None or sure[name](value) for name, value in row.items())
    )


def _is_text(value: Any) -> bool:
    """Whether it is a text that UTF-8 has: JSON also has halves of surrogate pairs."""
    return type(value) is str and (value.isascii() or not _SURROGATE.search(value))


def _is_long(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_float(value: Any) -> bool:
    return type(value) is float


def _is_bool(value: Any) -> bool:
    return type(value) is bool


_SURROGATE: Final = re.compile("[\ud800-\udfff]")

"""The records of a batch and their predictions: JSON texts that nobody decodes without need, or
Arrow columns. No I/O.

Neither is ever a list of Python numbers: a JSON text is passed from the input to the request and
from the response to the output as it is, and a column is passed as one buffer. pyarrow is imported
only by what creates columns, because its import takes longer than a small run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow

_BYTES_PER_OBJECT = 41
"""Memory of an empty bytes object with its reference."""


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """One JSON text per record, without line breaks at its ends.

    Records that are not objects are arrays, whose dimensions may differ, or single values, all of
    the same kind.
    """

    texts: Sequence[bytes]

    _nbytes: int = field(default=-1, init=False, repr=False, compare=False)
    """The memory of the texts once it has been asked for, because several limits depend on it."""

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """The memory of the texts."""
        if self._nbytes < 0:
            size = sum(map(len, self.texts)) + _BYTES_PER_OBJECT * len(self.texts)
            object.__setattr__(self, "_nbytes", size)
        return self._nbytes

    def part(self, start: int, stop: int) -> "JsonRecords":
        """Return the records from position `start` up to `stop`."""
        return (
            self if start == 0 and stop >= len(self.texts) else JsonRecords(self.texts[start:stop])
        )

    def join(self, others: "Sequence[Records]") -> "Records":
        """Append other records of the same kind. Where all are null, they may be joined with
        columns."""
        if table := next((one for one in others if isinstance(one, ArrowRecords)), None):
            return table.part(0, 0).join([self, *others])
        return JsonRecords(
            [
                *self.texts,
                *chain.from_iterable(one.texts for one in others if isinstance(one, JsonRecords)),
            ]
        )


@dataclass(frozen=True, slots=True)
class ArrowRecords:
    """Records as columns: one row per record."""

    table: "pyarrow.RecordBatch"

    _nbytes: int = field(default=-1, init=False, repr=False, compare=False)
    """As that of texts: pyarrow walks all buffers for it."""

    def __len__(self) -> int:
        rows: int = self.table.num_rows
        return rows

    @property
    def schema(self) -> "pyarrow.Schema":
        """Names and types of the columns."""
        return self.table.schema

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        if self._nbytes < 0:
            object.__setattr__(self, "_nbytes", self.table.nbytes)
        return self._nbytes

    def part(self, start: int, stop: int) -> "ArrowRecords":
        """Return the rows from position `start` up to `stop`, without copying them."""
        return ArrowRecords(self.table.slice(start, stop - start))

    def taken(self, rows: "Sequence[int | None]") -> "ArrowRecords":
        """Return some rows; None is one of nulls."""
        import pyarrow  # noqa: PLC0415  only runs with columns pay for its import

        return ArrowRecords(self.table.take(pyarrow.array(rows, pyarrow.int64())))

    def join(self, others: "Sequence[Records]") -> "ArrowRecords":
        """Append other records with the same columns, or JSON texts that are all null."""
        import pyarrow  # noqa: PLC0415  as above

        return ArrowRecords(
            pyarrow.concat_batches([self.table, *(self._rows_of(part) for part in others)])
        )

    def _rows_of(self, part: "Records") -> "pyarrow.RecordBatch":
        if isinstance(part, ArrowRecords):
            return part.table
        if set(part.texts) != {b"null"}:
            raise TypeError("JSON texts and columns cannot be joined")
        return self.taken([None] * len(part)).table


Records: TypeAlias = JsonRecords | ArrowRecords

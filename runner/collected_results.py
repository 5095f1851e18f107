"""Keeps results for formats that cannot write them one by one. No I/O but the errors, which are written at once."""

from collections.abc import Callable, Sequence
from typing import BinaryIO, Final, Generic, TypeVar, cast

import orjson

from inferrun.plugins import Batch, CustomId, Json, RecordError, ResultCounts, Results
from runner.json_text import error_text, json_texts
from runner.jsonl.format import head_of

INDEX: Final = "index"
PREDICTION: Final = "prediction"
ERROR: Final = "error"

PIECE_ROWS: Final = 16_384

T = TypeVar("T")


class CollectedResults:
    """One row per record, in order."""

    def __init__(self, errors: BinaryIO) -> None:
        self._errors = errors
        self._copied: list[bytes] = []
        self._predictions: list[bytes] = []
        """JSON texts; null for failed records."""
        self.indexes: list[int] = []
        self.ids: list[CustomId] = []
        self.failures: dict[int, RecordError] = {}
        """By the position of the row."""

    def add(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        start = len(self.indexes)
        self.indexes += range(batch.first, batch.first + len(batch))
        self.ids += batch.ids or [None] * len(batch)
        self._copied += batch.copied or [b""] * len(batch)
        self._predictions += json_texts(results.values)
        for at in sorted(results.errors):
            self.failures[start + at] = results.errors[at]
            self._predictions[start + at] = b"null"
            self._write_error(start + at, results.errors[at])

    @property
    def has_ids(self) -> bool:
        """Whether any record has an id."""
        return any(one is not None for one in self.ids)

    def predictions(self) -> list[Json]:
        """Return the predictions, with null for failed records."""
        return _decoded(self._predictions)

    def copied_columns(self) -> dict[str, list[Json]]:
        """Return the columns that are copied, with null for rows that do not have them."""
        if not any(self._copied):
            return {}
        rows = cast("list[dict[str, Json]]", _decoded([b"{%b}" % members for members in self._copied]))
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def _write_error(self, row: int, error: RecordError) -> None:
        head = head_of(self.indexes[row], self.ids[row])
        if self._copied[row]:
            head += b",%b" % self._copied[row]
        self._errors.write(b'%b,"error":%b}\n' % (head, error_text(error)))


class PiecewiseWriter(Generic[T]):
    """Converts the results of a chunk piece by piece to what takes less memory, and writes the file when the last one is known."""

    def __init__(
        self,
        out: BinaryIO,
        errors: BinaryIO,
        *,
        convert: Callable[[CollectedResults], T],
        encode: Callable[[Sequence[T]], bytes | memoryview],
    ) -> None:
        """`encode` returns the content of a file with the rows of all pieces."""
        self._out = out
        self._errors = errors
        self._convert = convert
        self._encode = encode
        self._rows = CollectedResults(errors)
        self._pieces: list[T] = []
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        self._counts += results.counts
        self._rows.add(batch, results)
        if len(self._rows.indexes) >= PIECE_ROWS:
            self._complete_piece()

    def close(self) -> ResultCounts:
        """Write the file, and return the numbers of results."""
        if self._rows.indexes or not self._pieces:
            self._complete_piece()
        self._out.write(self._encode(self._pieces))
        return self._counts

    def _complete_piece(self) -> None:
        self._pieces.append(self._convert(self._rows))
        self._rows = CollectedResults(self._errors)


def _decoded(texts: Sequence[bytes]) -> list[Json]:
    """Decode JSON texts in one call."""
    found: list[Json] = orjson.loads(b"[%b]" % b",".join(texts))
    return found

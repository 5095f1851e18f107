"""Keeps results for formats that cannot write them one by one. No I/O but the errors, which are written at once."""

from collections.abc import Callable, Sequence
from typing import BinaryIO, Final, Generic, TypeVar, cast

import orjson

from inferrun.formats.json_text import copied_texts, json_texts
from inferrun.formats.jsonl.results import error_line
from inferrun.plugins import ID_COLUMN, Batch, CustomId, Json, RecordError, ResultCounts, Results

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
        self._ids: list[CustomId] = []
        self._failures: dict[int, RecordError] = {}
        """By the position of the row."""

    def add(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        start = len(self.indexes)
        self.indexes += range(batch.first, batch.first + len(batch))
        self._ids += batch.ids or [None] * len(batch)
        self._copied += copied_texts(batch) or [b""] * len(batch)
        self._predictions += json_texts(results.values)
        for at, error in sorted(results.errors.items()):
            row = start + at
            self._failures[row] = error
            self._predictions[row] = b"null"
            self._errors.write(error_line(self.indexes[row], self._ids[row], self._copied[row], error))

    def columns(self) -> dict[str, Sequence[Json]]:
        """Return ids if there are any, copied columns and predictions; a value that a row does not have is null."""
        ids: dict[str, Sequence[Json]] = {ID_COLUMN: self._ids} if any(one is not None for one in self._ids) else {}
        copied: dict[str, Sequence[Json]] = {}
        if any(self._copied):
            rows = cast("list[dict[str, Json]]", _decoded([b"{%b}" % members for members in self._copied]))
            names = dict.fromkeys(name for row in rows for name in row)
            copied = {name: [row.get(name) for row in rows] for name in names}
        return {**ids, **copied, PREDICTION: _decoded(self._predictions)}

    def failures(self) -> list[RecordError | None]:
        """Return the error of each row that has failed."""
        return [self._failures.get(row) for row in range(len(self.indexes))]


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
    found: list[Json] = orjson.loads(b"[%b]" % b",".join(texts))
    return found

"""Keeps the results of a chunk until it is complete, for formats that need all of them before they can write the first. Pure."""

from collections.abc import Sequence
from typing import BinaryIO, cast

import orjson

from inferrun.plugins import Batch, CustomId, Json, RecordError, ResultCounts, Results
from runner.json_text import error_text, json_texts
from runner.jsonl.format import head_of

INDEX = "index"
PREDICTION = "prediction"
ERROR = "error"


class CollectedResults:
    """One row per record, in order. The errors are written at once, as JSON lines."""

    def __init__(self, errors: BinaryIO) -> None:
        self._errors = errors
        self._copied: list[bytes] = []
        self.counts = ResultCounts(0)
        self.indexes: list[int] = []
        self.ids: list[CustomId] = []
        self._predictions: list[bytes] = []
        """JSON texts; null for failed records."""
        self.failures: dict[int, RecordError] = {}
        """By the position of the row."""

    def add(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        start = len(self.indexes)
        self.counts += results.counts
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


def _decoded(texts: Sequence[bytes]) -> list[Json]:
    """Decode JSON texts in one call."""
    found: list[Json] = orjson.loads(b"[%b]" % b",".join(texts))
    return found

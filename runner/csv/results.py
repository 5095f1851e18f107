"""Writes the results of a chunk as a CSV file (RFC 4180), one row per record, and reads them again.

The columns are `index`, `custom_id` if the input has ids, the columns that are copied, `prediction` and `error`. A number, list or
object is its JSON text. A text is written as it is, unless it is empty or could be taken for a JSON text: then it is one, too. An
empty value means null. A failed record has an `error`, the JSON text of its code, message and attempts.
"""

import csv
import io
import sys
from collections.abc import Sequence
from typing import BinaryIO

import orjson

from inferrun.plugins import ID_COLUMN, Batch, Json, ResultCounts, Results
from runner.collected_results import ERROR, INDEX, PREDICTION, CollectedResults
from runner.json_text import error_text, text_of


class CsvWriter:
    """Writes the rows when the last one is known: until then, more columns may be copied."""

    def __init__(self, out: BinaryIO, errors: BinaryIO) -> None:
        self._out = out
        self._rows = CollectedResults(errors)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        self._rows.add(batch, results)

    def close(self) -> ResultCounts:
        """Write the file, and return the numbers of results."""
        rows = self._rows
        values: dict[str, Sequence[Json]] = {ID_COLUMN: rows.ids} if rows.has_ids else {}
        values |= rows.copied_columns()
        values[PREDICTION] = rows.predictions()
        failures = map(rows.failures.get, range(len(rows.indexes)))
        errors = [error_text(one).decode() if one else "" for one in failures]
        content = io.StringIO()
        writer = csv.writer(content, lineterminator="\n")
        writer.writerow([INDEX, *values, ERROR])
        writer.writerows(
            zip(rows.indexes, *([_cell(one) for one in column] for column in values.values()), errors, strict=True)
        )
        self._out.write(content.getvalue().encode())
        return rows.counts


def read_predictions(content: bytes) -> dict[int, bytes]:
    """Return the predictions in a file as JSON texts, by the index of their records. Raises ValueError."""
    csv.field_size_limit(sys.maxsize)
    reader = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise ValueError(f"the file is not CSV ({error})") from error
    if not {INDEX, PREDICTION, ERROR} <= set(reader.fieldnames or ()) or any(None in row.values() for row in rows):
        raise ValueError("the file does not have the columns of results")
    return {int(row[INDEX]): _json(row[PREDICTION]) for row in rows if not row[ERROR]}


def _cell(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value and not _is_json(value):
        return value
    return text_of(value).decode()


def _json(cell: str) -> bytes:
    return cell.encode() if _is_json(cell) else text_of(cell)


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True

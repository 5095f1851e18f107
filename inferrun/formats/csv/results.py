"""Writes the results of a chunk as a CSV file (RFC 4180), one row per record, and reads them again.

The columns are `index`, `custom_id` if the input has ids, the columns that are copied, `prediction` and `error`. A number, list or
object is its JSON text. A text is written as it is, unless it is empty or could be taken for a JSON text: then it is one, too. An
empty value means null. A failed record has an `error`, the JSON text of its code, message and attempts.
"""

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

import orjson

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.json_text import array_of, copied_texts, error_of, error_text, json_texts, text_of
from inferrun.formats.jsonl.results import error_line
from inferrun.plugins import ID_COLUMN, Batch, Json, ResultCounts, Results, ResultWriter, StoredResult

csv.field_size_limit(sys.maxsize)

SUFFIX: Final = ".csv"

_INDEX, _, _PREDICTION, _ERROR = RESULT_MEMBERS


class CsvResults:
    """Writes a table of results, and reads it again."""

    results_suffix = SUFFIX

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: object = None) -> ResultWriter:  # noqa: ARG002  the seam's
        """Return a writer of one table."""
        return CsvWriter(out, errors)

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:  # noqa: ARG002  the seam's
        """Yield the rows of a result file."""
        return _rows_in(results)


class CsvWriter:
    """Holds the rows of a chunk as text until the last one is known, because the first line names the columns of all."""

    def __init__(self, out: BinaryIO, errors: BinaryIO) -> None:
        self._out = out
        self._errors = errors
        self._pieces: list[tuple[tuple[str, ...], io.StringIO]] = []
        """Consecutive rows, and the names of their columns."""
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        self._counts += results.counts
        ids = batch.ids or [None] * len(batch)
        copied = copied_texts(batch) or [b""] * len(batch)
        predictions, errors = list(json_texts(results.values)), [""] * len(batch)
        for at, error in sorted(results.errors.items()):
            predictions[at], errors[at] = b"null", error_text(error).decode()
            self._errors.write(error_line(batch.first + at, ids[at], copied[at], error))
        columns: dict[str, Sequence[Json]] = {ID_COLUMN: ids} if any(one is not None for one in ids) else {}
        if batch.copied is not None:
            rows: list[dict[str, Json]] = orjson.loads(array_of([b"{%b}" % members for members in copied]))
            names = dict.fromkeys(name for row in rows for name in row)
            columns |= {name: [row.get(name) for row in rows] for name in names}
        columns[_PREDICTION] = orjson.loads(array_of(predictions))
        header = (_INDEX, *columns, _ERROR)
        if not self._pieces or self._pieces[-1][0] != header:
            self._pieces.append((header, io.StringIO()))
        cells = ([_cell(one) for one in column] for column in columns.values())
        indexes = range(batch.first, batch.first + len(batch))
        self._pieces[-1][1].write(_text(zip(indexes, *cells, errors, strict=True)))

    def close(self) -> ResultCounts:
        """Write the file, and return the numbers of results."""
        found = dict.fromkeys(name for names, _ in self._pieces for name in names)
        copied = [name for name in found if name not in RESULT_MEMBERS]
        header = (_INDEX, *([ID_COLUMN] if ID_COLUMN in found else []), *copied, _PREDICTION, _ERROR)
        self._out.write(_text([header]).encode())
        for names, piece in self._pieces:
            text = piece.getvalue()
            if names != header:
                rows = csv.reader(io.StringIO(text, newline=""), strict=True)
                text = _text([dict(zip(names, row, strict=True)).get(name, "") for name in header] for row in rows)
            self._out.write(text.encode())
        return self._counts


def _text(rows: Iterable[Iterable[object]]) -> str:
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows(rows)
    return content.getvalue()


def _rows_in(file: BinaryIO) -> Iterator[StoredResult]:
    """Yield the results in a file. Raises ValueError for another file."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        reader = csv.DictReader(text, strict=True)
        names = reader.fieldnames or ()
        if not {_INDEX, _PREDICTION, _ERROR} <= set(names):
            raise ValueError("the file does not have the columns of results")
        copied = [name for name in names if name not in RESULT_MEMBERS]
        for row in reader:
            if None in row.values():
                raise ValueError("a line does not have the columns of results")
            error, values = row[_ERROR], {name: row[name] for name in copied}
            yield StoredResult(
                int(row[_INDEX]),
                orjson.loads(_json_of(row.get(ID_COLUMN, ""))),
                b",".join(b"%b:%b" % (orjson.dumps(name), _json_of(cell)) for name, cell in values.items()),
                b"" if error else _json_of(row[_PREDICTION]),
                error_of(orjson.loads(error)) if error else None,
            )
    except csv.Error as wrong:
        raise ValueError(f"the file is not CSV ({wrong})") from wrong
    finally:
        text.detach()


def _json_of(cell: str) -> bytes:
    """Return the JSON text of the value in a cell."""
    return b"null" if not cell else cell.encode() if _is_json(cell) else text_of(cell)


def _cell(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value and not _is_json(value):
        return value
    return text_of(value).decode()


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True

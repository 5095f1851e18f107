"""Writes the results of a chunk as a CSV file (RFC 4180), one row per record, and reads them again.

The columns are `index`, `custom_id` if the input has ids, the columns that are copied, `prediction` and `error`. A number, list or
object is its JSON text. A text is written as it is, unless it is empty or could be taken for a JSON text: then it is one, too. An
empty value means null. A failed record has an `error`, the JSON text of its code, message and attempts.
"""

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import orjson

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.collected_results import ERROR, INDEX, PREDICTION, CollectedResults, PiecewiseWriter
from inferrun.formats.json_text import error_of, error_text, text_of
from inferrun.plugins import ID_COLUMN, Json, ResultWriter, StoredResult

csv.field_size_limit(sys.maxsize)


SUFFIX: Final = ".csv"


class CsvResults:
    """Writes a table of results, and reads it again."""

    results_suffix = SUFFIX

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: object = None) -> ResultWriter:  # noqa: ARG002  the seam's
        """Return a writer of one table."""
        return PiecewiseWriter(out, errors, convert=_converted, encode=_encoded)

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:  # noqa: ARG002  the seam's
        """Yield the rows of a result file."""
        return _rows_in(results)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Consecutive rows as text, and the names of their columns."""

    names: tuple[str, ...]
    text: str


def _converted(rows: CollectedResults) -> _Piece:
    columns = rows.columns()
    errors = [error_text(one).decode() if one else "" for one in rows.failures()]
    cells = ([_cell(one) for one in column] for column in columns.values())
    return _Piece((INDEX, *columns, ERROR), _text(zip(rows.indexes, *cells, errors, strict=True)))


def _encoded(pieces: Sequence[_Piece]) -> bytes:
    names = dict.fromkeys(name for piece in pieces for name in piece.names if name not in (PREDICTION, ERROR))
    header = (*names, PREDICTION, ERROR)
    texts = (piece.text if piece.names == header else _with_columns(piece, header) for piece in pieces)
    return (_text([header]) + "".join(texts)).encode()


def _with_columns(piece: _Piece, header: Sequence[str]) -> str:
    """Return the rows with columns that only other pieces have."""
    rows = csv.reader(io.StringIO(piece.text, newline=""), strict=True)
    return _text([dict(zip(piece.names, row, strict=True)).get(name, "") for name in header] for row in rows)


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
        if not {INDEX, PREDICTION, ERROR} <= set(names):
            raise ValueError("the file does not have the columns of results")
        copied = [name for name in names if name not in RESULT_MEMBERS]
        for row in reader:
            if None in row.values():
                raise ValueError("a line does not have the columns of results")
            error, values = row[ERROR], {name: row[name] for name in copied}
            yield StoredResult(
                int(row[INDEX]),
                orjson.loads(_json_of(row.get(ID_COLUMN, ""))),
                b",".join(b"%b:%b" % (orjson.dumps(name), _json_of(cell)) for name, cell in values.items()),
                b"" if error else _json_of(row[PREDICTION]),
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

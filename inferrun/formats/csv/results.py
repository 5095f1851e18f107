"""Writes the results of a chunk as a CSV file (RFC 4180), one row per record, and reads them again.

The columns are `index`, `custom_id` if the input has ids, the columns that are copied, `prediction`
and `error`. A number, list or object is its JSON text, and nothing is null. A text is written as it
is, in quotes if it would otherwise be empty or a number: readers of CSV see no difference, and this
one does. A text that is itself the JSON text of a list, an object or a text needs more: the name of
its column is in quotes, and then all values of the column are texts. If others are not, it is the
JSON text of a text, and so is one with a NUL, which many readers of CSV refuse. A failed record has
an `error`, the JSON text of its code, message and attempts.
"""

import io
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import orjson

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.bytes_in_json import base64_of
from inferrun.formats.csv.cells import Cell, Quoted, marked_records
from inferrun.formats.exact_json import exact_value
from inferrun.formats.json_text import array_of, error_of, error_text, text_of, texts_of
from inferrun.formats.jsonl.results import error_line
from inferrun.formats.record_texts import copied_members, json_texts
from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Batch,
    InputFile,
    Json,
    Records,
    ResultCounts,
    Results,
    ResultWriter,
    StoredResult,
)

SUFFIX: Final = ".csv"

_INDEX, _, _PREDICTION, _ERROR = RESULT_MEMBERS
_NULL: Final = b"null"
_IN_QUOTES: Final = re.compile('[",\r\n]')
_BLANKS: Final = re.compile(rb"\s")
_TEXT_OF_JSON: Final = re.compile(rb'"[\[{\\ ]')
"""Begins every text that is a JSON text in quotes of its own, or a list or an object, perhaps after
blanks."""

_FIRST: Final = re.compile(r'\s*[-0-9tfn\[{"]')
"""Begins every JSON text."""


class CsvResults:
    """Writes a table of results, and reads it again."""

    results_suffix = SUFFIX

    def writer(self, out: BinaryIO, errors: BinaryIO, *, schema: object = None) -> ResultWriter:  # noqa: ARG002  the seam's
        """Return a writer of one table."""
        return CsvWriter(out, errors)

    def join_files(self, files: Sequence[InputFile], out: BinaryIO, schema: object = None) -> None:  # noqa: ARG002  the seam's
        """Write the rows of tables to one with the columns of all."""
        headers = [_header_in(file) for file in files]
        texts = {name for header in headers for name in header if _has_texts(name)}
        for header, file in zip(headers, files, strict=True) if texts else ():
            texts -= _others_in(
                file, [name for name in header if name in texts and not _has_texts(name)]
            )
        header = _header_of(headers, texts)
        out.write(_line(header))
        for names, file in zip(headers, files, strict=True):
            with file.open() as content:
                _append(content, names, out, header)

    def read_results(
        self,
        results: BinaryIO,
        errors: BinaryIO | None = None,  # noqa: ARG002  the seam's
    ) -> Iterator[StoredResult]:
        """Yield the rows of a result file. Raises ValueError for another file."""
        header, rows = _rows_in(results)
        copied = [name for name in header if name not in RESULT_MEMBERS]
        for row in rows:
            error = row.pop(_ERROR)
            yield StoredResult(
                int(row[_INDEX]),
                orjson.loads(row.get(ID_COLUMN, _NULL)),
                b",".join(b"%b:%b" % (orjson.dumps(str(name)), row[name]) for name in copied),
                row[_PREDICTION] if error == _NULL else b"",
                None if error == _NULL else error_of(orjson.loads(error)),
            )


class CsvWriter:
    """Holds the rows of a chunk as text until the last one is known, because the first line names
    the columns of all."""

    def __init__(self, out: BinaryIO, errors: BinaryIO) -> None:
        self._out = out
        self._errors = errors
        self._pieces: list[_Piece] = []
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the rows of a batch."""
        ids = batch.ids or [None] * len(batch)
        copied, failures = copied_members(batch)
        copied, failures = copied or [b""] * len(batch), {**failures, **results.errors}
        self._counts += ResultCounts(len(batch) - len(failures), len(failures))
        predictions, errors = list(json_texts(results.values)), [_NULL] * len(batch)
        for at, error in sorted(failures.items()):
            predictions[at], errors[at] = _NULL, error_text(error)
            self._errors.write(error_line(batch.first + at, ids[at], copied[at], error))
        columns: dict[str, Sequence[bytes]] = {}
        if any(one is not None for one in ids):
            columns[ID_COLUMN] = texts_of(ids)
        if batch.copied is not None:
            objects: list[dict[str, Json]] = exact_value(
                array_of([b"{%b}" % members for members in copied])
            )
            names = dict.fromkeys(name for one in objects for name in one)
            columns |= {name: texts_of([one.get(name) for one in objects]) for name in names}
            columns |= _bytes_in(batch.copied)
        columns[_PREDICTION] = [
            text_of(exact_value(one)) if _BLANKS.search(one) else one for one in predictions
        ]
        others = {
            name
            for name, texts in columns.items()
            if _IN_QUOTES.search(name) or any(map(_is_other, texts))
        }
        nested = {
            name
            for name, texts in columns.items()
            if name not in others and any(map(_is_text_of_json, texts))
        }
        if not (self._pieces and self._pieces[-1].takes(columns, others, nested)):
            self._pieces.append(_Piece((_INDEX, *columns, _ERROR)))
        piece = self._pieces[-1]
        piece.others |= others
        piece.nested |= nested
        indexes = map(b"%d".__mod__, range(batch.first, batch.first + len(batch)))
        cells = [
            [_cell(text, is_text=name not in others) for text in texts]
            for name, texts in columns.items()
        ]
        rows = zip(indexes, *cells, map(_cell, errors), strict=True)
        piece.lines.writelines(b"%b\n" % b",".join(row) for row in rows)

    def close(self) -> ResultCounts:
        """Write the file, and return the numbers of results."""
        others = set[str]().union(*(piece.others for piece in self._pieces))
        nested = set[str]().union(*(piece.nested for piece in self._pieces))
        header = _header_of([piece.names for piece in self._pieces], nested - others)
        self._out.write(_line(header))
        for piece in self._pieces:
            if piece.names == header and not piece.nested & others:
                self._out.write(piece.lines.getbuffer())
            else:
                names = _header_of([piece.names], piece.nested)
                _append(
                    io.BytesIO(_line(names) + piece.lines.getbuffer()), names, self._out, header
                )
        return self._counts


@dataclass(slots=True)
class _Piece:
    """Consecutive rows of the same columns."""

    names: tuple[str, ...]

    others: set[str] = field(default_factory=set)
    """The columns that do not have texts only."""

    nested: set[str] = field(default_factory=set)
    """Those of texts only of which one is the JSON text of a list, an object or a text. They are as
    in a column of texts."""

    lines: io.BytesIO = field(default_factory=io.BytesIO)

    def takes(
        self, columns: Iterable[str], others: AbstractSet[str], nested: AbstractSet[str]
    ) -> bool:
        """Whether rows with these columns can be added."""
        return self.names == (_INDEX, *columns, _ERROR) and not (
            self.others & nested or self.nested & others
        )


def _bytes_in(records: Records) -> dict[str, list[bytes]]:
    """Return the columns of bytes as JSON texts of one form, although some values may be texts."""
    if not isinstance(records, ArrowRecords):
        return {}
    from pyarrow import types  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

    from inferrun.formats.json_columns import is_bytes  # noqa: PLC0415  as above

    found: dict[str, list[bytes]] = {}
    for name, column in zip(records.table.schema.names, records.table.columns, strict=True):
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if is_bytes(kind):
            found[name] = [
                _NULL if one is None else text_of(base64_of(one)) for one in column.to_pylist()
            ]
    return found


def _header_of(headers: Iterable[Sequence[str]], texts: AbstractSet[str]) -> tuple[str, ...]:
    """Return the columns that rows with all these columns have; those with texts only, as they are,
    are `Quoted`."""
    found = dict.fromkeys(str(name) for names in headers for name in names)
    copied = [name for name in found if name not in RESULT_MEMBERS]
    names = (_INDEX, *([ID_COLUMN] if ID_COLUMN in found else []), *copied, _PREDICTION, _ERROR)
    return tuple(
        Quoted(name) if _has_texts(Quoted(name)) and name in texts else name for name in names
    )


def _has_texts(name: str) -> bool:
    """Whether the name of a column is in quotes that it does not need, so that all values are
    texts."""
    return isinstance(name, Quoted) and not _IN_QUOTES.search(name)


def _line(header: Iterable[str]) -> bytes:
    cells = (
        _quoted(name) if isinstance(name, Quoted) or _IN_QUOTES.search(name) else name.encode()
        for name in header
    )
    return b"%b\n" % b",".join(cells)


def _header_in(file: InputFile) -> tuple[str, ...]:
    with file.open() as content:
        return _rows_in(content)[0]


def _others_in(file: InputFile, names: Sequence[str]) -> set[str]:
    """Return the columns that have values of which one could not be written in a column of
    texts."""
    found = set[str]()
    if names:
        with file.open() as content:
            for row in _rows_in(content)[1]:
                found |= {name for name in names if _is_other(row[name])}
    return found


def _append(content: BinaryIO, names: Sequence[str], out: BinaryIO, header: Sequence[str]) -> None:
    """Write the rows of a table with the columns of a header; what they do not have is null."""
    if _line(names) == _line(header):
        content.seek(len(_line(header)))
        shutil.copyfileobj(content, out)
        return
    content.seek(0)
    for row in _rows_in(content)[1]:
        cells = [_cell(row.get(name, _NULL), is_text=_has_texts(name)) for name in header]
        out.write(b"%b\n" % b",".join(cells))


def _rows_in(file: BinaryIO) -> tuple[tuple[str, ...], Iterator[dict[str, bytes]]]:
    """Return the columns of a file and its rows, as JSON texts. Raises ValueError for another
    file."""
    records = marked_records(file)
    header = tuple("" if name is None else name for name in next(records, []))
    if not {_INDEX, _PREDICTION, _ERROR} <= set(header):
        raise ValueError("the file does not have the columns of results")
    return header, _rows_of(records, header)


def _rows_of(records: Iterator[list[Cell]], header: Sequence[str]) -> Iterator[dict[str, bytes]]:
    texts = list(map(_has_texts, header))
    for cells in records:
        if len(cells) != len(header):
            raise ValueError("a line does not have the columns of results")
        yield {
            name: _json_of(cell, is_text=is_text)
            for name, cell, is_text in zip(header, cells, texts, strict=True)
        }


def _json_of(cell: Cell, *, is_text: bool) -> bytes:
    """Return the JSON text of a value."""
    if cell is None:
        return _NULL
    is_json = not is_text and (not isinstance(cell, Quoted) or _is_nested(cell)) and _is_json(cell)
    return cell.encode() if is_json else text_of(str(cell))


def _cell(text: bytes, *, is_text: bool = False) -> bytes:
    """Return the value of a JSON text as it is in a file; `is_text`: in a column of texts."""
    if text == _NULL:
        return b""
    if text.startswith(b'"'):
        value: str = orjson.loads(text)
        is_json = _is_json(value)
        if is_text or not ("\0" in value or (is_json and _is_nested(value))):
            return (
                _quoted(value)
                if is_json or not value or _IN_QUOTES.search(value)
                else value.encode()
            )
    value = text.decode()
    return _quoted(value) if _IN_QUOTES.search(value) else text


def _is_text_of_json(text: bytes) -> bool:
    """Whether a value is a text that is the JSON text of a list, an object or a text."""
    if not _TEXT_OF_JSON.match(text):
        return False
    value: str = orjson.loads(text)
    return _is_nested(value) and _is_json(value)


def _is_other(text: bytes) -> bool:
    """Whether a value is none of a column of texts."""
    return (text != _NULL and not text.startswith(b'"')) or b"\\u0000" in text


def _quoted(text: str) -> bytes:
    return b'"%b"' % text.replace('"', '""').encode()


def _is_nested(text: str) -> bool:
    """Whether a JSON text may be that of a list, an object or a text, which is in quotes in any
    case."""
    return text.lstrip().startswith(("[", "{", '"'))


def _is_json(text: str) -> bool:
    if not _FIRST.match(text):
        return False
    try:
        orjson.loads(text.encode())
    except orjson.JSONDecodeError:
        return False
    return True

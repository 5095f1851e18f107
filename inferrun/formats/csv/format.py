"""Reads records from CSV files (RFC 4180): the first line names the columns, and each other line is a record of numbers.

Values are separated by commas. An empty value and NaN are a missing number. A column `custom_id` is copied to the results. A line
break within quotes is not supported, because ranges are bytes and begin at line breaks. If the contract names the columns that feed
the model, their values are texts, which become what the model's datatypes require; columns that are copied remain texts. Results
are tables, too: see `inferrun.formats.csv.results`.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from inferrun.formats.csv.results import SUFFIX, CsvResults
from inferrun.formats.json_text import text_of, texts_of
from inferrun.formats.jsonl.bad_lines import read_valid
from inferrun.formats.jsonl.line_blocks import BOM
from inferrun.formats.jsonl.line_ranges import BadLine, Lines, plan_lines, read_lines
from inferrun.formats.named_columns import check_copied, check_names
from inferrun.formats.number_text import number_of
from inferrun.formats.partitions import json_values
from inferrun.plugins import (
    ID_COLUMN,
    Block,
    Chunk,
    ColumnSelection,
    CustomId,
    InputError,
    InputFile,
    Json,
    JsonRecords,
    Limits,
    Piece,
    RecordFormat,
)
from inferrun.plugins.columns import ALL_COLUMNS
from inferrun.plugins.rows import RowFault, width_of

_OTHER_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


@dataclass(frozen=True, slots=True)
class _Header:
    names: list[str]

    path: Mapping[str, Json]
    """The columns that the path of the file has."""

    @property
    def id_column(self) -> int | None:
        """The position of the column of ids."""
        return self.names.index(ID_COLUMN) if ID_COLUMN in self.names else None


class Csv(CsvResults):
    """Reads tables, and writes a table of results."""

    suffixes: tuple[str, ...] = (SUFFIX,)

    def __init__(self, columns: ColumnSelection = ALL_COLUMNS) -> None:
        self._columns = columns

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these columns."""
        return Csv(columns)

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of bytes. The first line is not a record."""
        held: Piece | None = None
        is_first = True
        for piece in plan_lines(file, chunk_bytes=chunk_bytes, limits=limits):
            start, records = (held.start, held.records) if held else (piece.start, 0)
            held = Piece(start, piece.end, records + piece.records - is_first)
            is_first = False
            if held.records:
                yield held
                held = None

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the lines that start within the chunk; a record must have a value per column."""
        header = _Header(_read_names(file, limits=limits), json_values(file))
        if both := next((name for name in header.names if name in header.path), ""):
            raise InputError(
                f"{file.name}: column {both!r} is in the file and in its path; remove one", is_retryable=False
            )
        names = [*header.names, *header.path]
        check_names(names, file, self._columns)
        if self._columns.copies_all:
            check_copied(self._columns.copied_of(names), file)
        skipped = 1 if chunk.start == 0 else 0
        for lines in read_lines(file, chunk, limits=limits):
            if len(lines.texts) > skipped:
                try:
                    yield _block(lines, header, skipped=skipped, columns=self._columns)
                except BadLine:
                    yield read_valid(
                        lines,
                        lambda one: _block(one, header, skipped=0, columns=self._columns),
                        id_of=lambda line: _id_in(line, header),
                        skipped=skipped,
                    )
            skipped = 0


def _read_names(file: InputFile, *, limits: Limits) -> list[str]:
    with file.open() as source:
        line = b""
        while not line.removeprefix(BOM).strip() and (read := source.readline(limits.record_bytes)):
            line = read
    cells = _cells(line.removeprefix(BOM).strip())
    if cells is None:
        raise InputError(
            f"{file.name} line 1 is not valid CSV in UTF-8; a value in quotes must end on the same line",
            is_retryable=False,
        )
    names = [name.strip() for name in cells]
    if not set(names) - {ID_COLUMN} or len(set(names)) < len(names) or "" in names:
        raise InputError(
            f"{file.name} line 1: the first line must name the columns, each once, and at least one besides {ID_COLUMN}",
            is_retryable=False,
        )
    if all(number_of(name) is not None for name in names):
        raise InputError(
            f"{file.name} line 1: the first line must name the columns, and has only numbers; add a line with names",
            is_retryable=False,
        )
    if len(names) == 1 and (found := next((one for one in _OTHER_SEPARATORS if one in names[0]), "")):
        raise InputError(
            f"{file.name} line 1: the columns are separated by {_OTHER_SEPARATORS[found]}; separate names and values by commas",
            is_retryable=False,
        )
    return names


def _block(lines: Lines, header: _Header, *, skipped: int, columns: ColumnSelection) -> Block:
    id_column = header.id_column
    texts = lines.exact_texts[skipped:]
    if not columns and (plain := _plain(texts, header)) is not None:
        return plain
    names = [*header.names, *header.path]
    fed = [names.index(name) for name in columns.fed_of(names if columns.has_names else header.names)]
    copied = [(name, names.index(name)) for name in columns.copied_of(names)]
    rows: list[Json] = []
    ids: list[CustomId] = []
    members: list[bytes] = []
    for at, text in enumerate(texts, start=skipped):
        cells = _cells(text)
        if cells is None:
            _check_quotes(text, lines, at)
            raise BadLine(at, "is not in UTF-8")
        if len(cells) != len(header.names):
            raise BadLine(at, f"has {len(cells)} values, the first line names {len(header.names)} columns")
        if id_column is not None:
            ids.append(cells[id_column])
        if columns.has_names:
            values: list[Json] = [*(cell or None for cell in cells), *header.path.values()]
            rows.append({names[position]: values[position] for position in fed})
        else:
            rows.append([_value(cells[position], at, names[position]) for position in fed])
        if copied:
            values = [*cells, *header.path.values()]
            members.append(text_of({name: values[position] for name, position in copied})[1:-1])
    fed_in_order = () if columns.has_names else [names[position] for position in fed]
    return Block(JsonRecords(texts_of(rows)), ids, JsonRecords(members) if copied else None, fed_in_order)


def _plain(texts: Sequence[bytes], header: _Header) -> Block | None:
    """Return lines that are also JSON when they are put in brackets, apart from the id, which most are; None if one is not."""
    names, ids = header.names, list[CustomId]()
    if (at := header.id_column) is not None:
        if any(b'"' in text or b"\r" in text or b"\\" in text for text in texts):
            return None
        cells = [text.split(b",") for text in texts]
        if set(map(len, cells)) != {len(names)}:
            return None
        try:
            ids = [row.pop(at).decode() for row in cells]
        except UnicodeDecodeError:
            return None
        names, texts = [name for name in names if name != ID_COLUMN], list(map(b",".join, cells))
    rows = list(map(b"[%b]".__mod__, texts))
    try:
        if any(b"n" in row for row in rows) or width_of(list(map(orjson.loads, rows))) != len(names):
            return None  # null is not a number in CSV
    except (orjson.JSONDecodeError, RowFault):
        return None
    return Block(JsonRecords(rows), ids, columns=names)


def _cells(line: bytes) -> list[str] | None:
    try:
        return next(csv.reader([line.decode()], strict=True), [])
    except (csv.Error, UnicodeDecodeError):
        return None


def _check_quotes(line: bytes, lines: Lines, at: int) -> None:
    """Raise InputError for a line with quotes that do not match: the lines after it may belong to the same record."""
    if _cells(line.decode(errors="replace").encode()) is None:
        raise InputError(
            f"{lines.place(at)} is not valid CSV in UTF-8; a value in quotes must end on the same line",
            is_retryable=False,
        )


def _id_in(line: bytes, header: _Header) -> CustomId:
    cells, at = _cells(line) or [], header.id_column
    return cells[at] if at is not None and at < len(cells) else None


def _value(cell: str, at: int, name: str) -> int | float | None:
    text = cell.strip()
    if not text:
        return None
    found = number_of(text)
    if found is None:
        raise BadLine(at, f"has no number in column {name[:80]!r}")
    return None if found != found else found  # noqa: PLR0124  NaN


CSV = Csv()

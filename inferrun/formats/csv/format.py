"""Reads records from CSV files (RFC 4180, or another dialect): the first record names the columns,
and each other one has numbers.

An empty value and NaN are a missing number. A column `custom_id` is copied to the results. If the
contract names the columns that feed the model, their values are texts, which become what the
model's datatypes require; columns that are copied remain texts. Results are tables, too: see
`inferrun.formats.csv.results`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from inferrun.formats.csv.cells import Cell
from inferrun.formats.csv.dialect import NOT_TEXT, CsvContent, CsvDialect, contents_of, first_record
from inferrun.formats.csv.results import SUFFIX, CsvResults
from inferrun.formats.json_text import numbers_in, text_of, texts_of
from inferrun.formats.jsonl.line_blocks import BOM
from inferrun.formats.jsonl.line_ranges import PIECE
from inferrun.formats.named_columns import check_copied, check_names
from inferrun.formats.number_text import number_of
from inferrun.formats.partitions import json_values
from inferrun.formats.record_errors import not_sent
from inferrun.plugins import (
    ID_COLUMN,
    Block,
    Chunk,
    ColumnSelection,
    CustomId,
    FormatAbilities,
    InputError,
    InputFile,
    Json,
    JsonRecords,
    Limits,
    Piece,
    ReadableResults,
    RecordError,
    RecordFormat,
)
from inferrun.plugins.columns import ALL_COLUMNS
from inferrun.stores.dataset import CsvOptions

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

    def __init__(
        self, columns: ColumnSelection = ALL_COLUMNS, dialect: CsvDialect | None = None
    ) -> None:
        self._columns = columns
        self._dialect = dialect or CsvDialect()
        self.suffixes: tuple[str, ...] = (
            (SUFFIX, ".tsv") if self._dialect.delimiter == "\t" else (SUFFIX,)
        )

    @property
    def abilities(self) -> FormatAbilities:
        """Records have columns, and results are read and joined."""
        return FormatAbilities(
            with_columns=self.with_columns,
            readable=ReadableResults(self.read_results),
            join_files=self.join_files,
        )

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these columns."""
        return Csv(columns, self._dialect)

    def with_dialect(self, options: CsvOptions) -> RecordFormat:
        """Return the format that reads files of this dialect."""
        return Csv(self._columns, CsvDialect(**dict(options)))

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of bytes, each of which begins with a record. The names of the
        columns are none."""
        piece = -(-chunk_bytes // -(-chunk_bytes // PIECE))  # so that a number of these is a chunk
        start = end = 0
        records = -int(self._dialect.has_header)
        is_one = len(first_record(file, self._dialect, limits=limits)[0]) == 1
        for content in contents_of(
            file,
            self._dialect,
            start=0,
            end=file.size,
            piece=piece,
            limits=limits,
            keeps_blank=is_one,
        ):
            records, end = records + content.count, content.end
            if records > 0 and end - start >= chunk_bytes - piece // 2:
                yield Piece(start, end, records)
                start, records = end, 0
        if records > 0:
            yield Piece(start, end, records)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the records that begin within the chunk; each must have a value per column."""
        header = _Header(self._read_names(file, limits=limits), json_values(file))
        if both := next((name for name in header.names if name in header.path), ""):
            raise InputError(
                f"{file.name}: column {both!r} is in the file and in its path; remove one",
                is_retryable=False,
            )
        names = [*header.names, *header.path]
        check_names(names, file, self._columns)
        if self._columns.copies_all:
            check_copied(self._columns.copied_of(names), file)
        skipped = int(self._dialect.has_header and chunk.start == 0)
        for content in contents_of(
            file,
            self._dialect,
            start=chunk.start,
            end=chunk.end,
            piece=PIECE,
            limits=limits,
            keeps_blank=len(header.names) == 1,
        ):
            if content.count > skipped:
                yield self._block(content, header, skipped=skipped)
            skipped = max(0, skipped - content.count)

    def _read_names(self, file: InputFile, *, limits: Limits) -> list[str]:
        dialect = self._dialect
        first, where = first_record(file, dialect, limits=limits)
        if not (first and dialect.has_header):
            return list(dialect.columns) or [f"column_{at}" for at in range(1, len(first) + 1)]
        names = [name.strip() for name in first]
        if dialect.columns:
            if len(names) != len(dialect.columns):
                text = f"{where} names {len(names)} columns, csv.columns {len(dialect.columns)}; name as many"
                raise InputError(text, is_retryable=False)
            return list(dialect.columns)
        if names[0].lower().startswith("sep=") and len(names[0]) <= len("sep=;"):
            text = f"{where} is a line for Excel that names the delimiter, which other programs take for the names of columns"
            raise InputError(
                f"{text}; remove it, and set csv.delimiter unless it is a comma", is_retryable=False
            )
        if len(names) == 1 and (
            found := next((one for one in _OTHER_SEPARATORS if one in names[0]), "")
        ):
            shown = orjson.dumps(found).decode()
            text = f"{where}: the columns are separated by {_OTHER_SEPARATORS[found]}; set csv.delimiter: {shown}"
            raise InputError(text, is_retryable=False)
        if NOT_TEXT.search("".join(names)):
            text = f"{where} is not in {dialect.encoding.upper()}; set csv.encoding, such as windows-1252"
            raise InputError(text, is_retryable=False)
        if all(number_of(name) is not None for name in names):
            text = f"{where}: the first line must name the columns, and has only numbers; set csv.header: false, or csv.columns"
            raise InputError(text, is_retryable=False)
        if not set(names) - {ID_COLUMN} or len(set(names)) < len(names) or "" in names:
            text = f"{where}: the first line must name the columns, each once, and at least one besides {ID_COLUMN}"
            raise InputError(f"{text}; or name them in csv.columns", is_retryable=False)
        return names

    def _block(self, content: CsvContent, header: _Header, *, skipped: int) -> Block:
        columns, dialect, id_column = self._columns, self._dialect, header.id_column
        if not columns and (plain := _plain(content, header, dialect, skipped=skipped)) is not None:
            return plain
        names = [*header.names, *header.path]
        fed = [
            names.index(name)
            for name in columns.fed_of(names if columns.has_names else header.names)
        ]
        copied = [(name, names.index(name)) for name in columns.copied_of(names)]
        rows: list[Json] = []
        ids: list[CustomId] = []
        members: list[bytes] = []
        errors: dict[int, RecordError] = {}
        for at, record in enumerate(content.rows(dialect)[skipped:]):
            cells = record.cells
            if id_column is not None:
                custom_id = (cells[id_column] if id_column < len(cells) else None) or ""
                ids.append(None if NOT_TEXT.search(custom_id) else custom_id)
            try:
                _check(cells, header, dialect)
                values = [*cells, *header.path.values()]
                if columns.has_names:
                    rows.append({names[position]: values[position] for position in fed})
                else:
                    rows.append([_number(values[position], names[position]) for position in fed])
                members.append(text_of({name: values[position] for name, position in copied})[1:-1])
            except ValueError as fault:
                errors[at] = not_sent(f"{content.place(record.line)} {fault}")
                rows[at:], members[at:] = [None], [b""]
        if errors:
            example = next((row for at, row in enumerate(rows) if at not in errors), None)
            rows = [example if at in errors else row for at, row in enumerate(rows)]
        fed_in_order = () if columns.has_names else [names[position] for position in fed]
        return Block(
            JsonRecords(texts_of(rows)),
            ids,
            JsonRecords(members) if copied else None,
            fed_in_order,
            errors,
        )


def _check(cells: Sequence[Cell], header: _Header, dialect: CsvDialect) -> None:
    """Raise ValueError with the rest of a sentence that begins with the record."""
    if NOT_TEXT.search("".join(filter(None, cells))):
        raise ValueError(f"is not in {dialect.encoding.upper()}")
    if len(cells) != len(header.names):
        raise ValueError(f"has {len(cells)} values, the file has {len(header.names)} columns")


def _number(value: Json, name: str) -> int | float | None:
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        return None
    found = number_of(text)
    if found is None:
        raise ValueError(f"has no number in column {name[:80]!r}")
    return None if found != found else found  # noqa: PLR0124  NaN


def _plain(
    content: CsvContent, header: _Header, dialect: CsvDialect, *, skipped: int
) -> Block | None:
    """Return lines that are also JSON when they are put in brackets, apart from the id, which most
    are; None if one is not."""
    block, names, ids = content.block.removeprefix(BOM), header.names, list[CustomId]()
    # others have characters with a byte that is a delimiter
    is_exact = block.isascii() or dialect.encoding == "utf-8"
    if (
        content.records is not None
        or dialect.null_values - {""}
        or not is_exact
        or (dialect.delimiter != "," and b"," in block)
    ):
        return None
    block = block.replace(dialect.delimiter.encode(), b",")
    texts = [line.removesuffix(b"\r") for line in block.split(b"\n") if line.strip()][skipped:]
    if (at := header.id_column) is not None:
        if any(b"\r" in text for text in texts):
            return None
        cells = [text.split(b",") for text in texts]
        try:
            ids = [row.pop(at).decode(dialect.encoding) for row in cells if len(row) == len(names)]
        except UnicodeDecodeError:
            return None
        names, texts = [name for name in names if name != ID_COLUMN], list(map(b",".join, cells))
    rows = list(map(b"[%b]".__mod__, texts))
    found = numbers_in(rows)
    # null is not a number in CSV
    is_plain = found and found[2] == len(names) and b"n" not in found[0]
    return (
        Block(JsonRecords(rows), ids, columns=names)
        if is_plain and (at is None or len(ids) == len(rows))
        else None
    )


CSV = Csv()

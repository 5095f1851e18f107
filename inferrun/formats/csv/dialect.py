"""What an input says about the text of its CSV files, and their records: where each one begins, for
the plan as for reading. Pure.

A value in quotes may contain line breaks, so a record may have several lines. How they are divided
into values is in `inferrun.formats.csv.cells`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import dropwhile, islice
from typing import Final

from inferrun.formats.csv.cells import CsvRecord, CsvSyntax, WrongText
from inferrun.formats.jsonl.line_blocks import BOM, count_records, line_blocks, line_number
from inferrun.formats.jsonl.line_ranges import PIECE, place_of
from inferrun.plugins import InputError, InputFile, Limits
from inferrun.stores.dataset import CsvOptions

NOT_TEXT: Final = re.compile("[\udc80-\udcff]")
"""What decoded text has in place of a byte that is not valid."""


class CsvDialect(CsvOptions):
    """What the storage object of an input says about its CSV files, and how their text is read
    accordingly."""

    @property
    def has_header(self) -> bool:
        """Whether the first record of a file is none: it has the names of the columns, which
        `columns` replace."""
        return not self.columns if self.header is None else self.header

    @cached_property
    def syntax(self) -> CsvSyntax:
        """How the text is divided."""
        return CsvSyntax(
            delimiter=self.delimiter,
            quote=self.quote,
            escape=self.escape,
            decodes=bool(self.escape) and (self.escape_unquoted or not self.quote),
            skips_space=self.skip_initial_space,
            nulls=self.null_values,
            encoding=self.encoding,
        )

    def may_span(self, content: bytes) -> bool:
        """Whether records of this content may be something else than its lines that are not
        blank."""
        signs = (self.quote, self.escape, self.delimiter if self.delimiter.isspace() else "")
        return any(sign and sign.encode() in content for sign in signs)

    def parse(
        self, file: InputFile, content: bytes, *, offset: int, keeps_blank: bool = False
    ) -> tuple[list[CsvRecord], int]:
        """Return the complete records in whole lines that begin at `offset`, and the number of
        their bytes: the last one may go on after these. Raises InputError."""
        text = (content if offset else content.removeprefix(BOM)).decode(
            self.encoding, "surrogateescape"
        )
        try:
            records, lines = self.syntax.split(text, keeps_blank=keeps_blank)
        except WrongText as wrong:
            line = line_number(file, offset + _size_of(content, wrong.line))
            fix = _ESCAPED if not self.escape and b'\\"' in content else _FIX
            raise InputError(
                f"{file.name} line {line} is not valid CSV: {wrong}; {fix}", is_retryable=False
            ) from wrong
        if keeps_blank and offset == 0 and self.has_header:  # blank lines before the names are none
            records = list(dropwhile(lambda one: one.cells in ([None], [""]), records))
        return records, _size_of(content, lines)


def _size_of(content: bytes, lines: int) -> int:
    return sum(map(len, islice(BytesIO(content), lines)))


@dataclass(frozen=True, slots=True)
class CsvContent:
    """Whole records, and where they are in their file."""

    file: InputFile
    offset: int
    block: bytes

    records: Sequence[CsvRecord] | None
    """None: each line that is not blank is one."""

    @property
    def count(self) -> int:
        """The number of records."""
        return (
            count_records(self.block.removeprefix(BOM))
            if self.records is None
            else len(self.records)
        )

    def rows(self, dialect: CsvDialect) -> Sequence[CsvRecord]:
        """Return the records."""
        return (
            dialect.parse(self.file, self.block, offset=self.offset)[0]
            if self.records is None
            else self.records
        )

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.offset + len(self.block)

    def place(self, line: int) -> str:
        """Return where a line is."""
        return place_of(self.file, self.offset, self.block, line)


def first_record(
    file: InputFile, dialect: CsvDialect, *, limits: Limits
) -> tuple[Sequence[str], str]:
    """Return the values of the first record, and where it is; none if the file has no record.
    Raises InputError."""
    contents = contents_of(
        file, dialect, start=0, end=file.size, piece=_FIRST_PIECE, limits=limits, keeps_blank=False
    )
    content = next((one for one in contents if one.count), None)
    if content is None:
        return (), ""
    first = content.rows(dialect)[0]
    return [cell or "" for cell in first.cells], content.place(first.line)


def contents_of(
    file: InputFile,
    dialect: CsvDialect,
    *,
    start: int,
    end: int,
    piece: int,
    limits: Limits,
    keeps_blank: bool,
) -> Iterator[CsvContent]:
    """Yield the records that begin between two positions, about `piece` bytes at a time. Raises
    InputError.

    Blank lines are kept in a file with one column, where each is a record without a value:
    PostgreSQL, DuckDB and others write so.
    """
    held, offset, wanted = b"", start, 0
    limit, piece = limits.record_bytes, min(piece, PIECE, limits.batch_bytes // 4)
    for at, block in line_blocks(file, start=start, end=end, line_limit=limit, piece=piece):
        offset = offset if held else at
        held += block
        if len(held) < wanted:
            continue
        if not (dialect.may_span(held) or (keeps_blank and _has_blank(held))):
            yield CsvContent(file, offset, held, None)
            held = b""
            continue
        records, size = dialect.parse(file, held, offset=offset, keeps_blank=keeps_blank)
        if records:
            yield CsvContent(file, offset, held[:size], records)
        held, offset = held[size:], offset + size
        wanted = 2 * len(held)  # so that a long record is not parsed too often
        if len(held) > limit:
            break
    if held:
        records, size = dialect.parse(file, held, offset=offset, keeps_blank=keeps_blank)
        if size < len(held):
            text = f"{file.name} line {line_number(file, offset + size)} begins a value in quotes that does not end"
            raise InputError(
                f"{text} within {limit} bytes, or not before the file does; {_FIX}",
                is_retryable=False,
            )
        yield CsvContent(file, offset, held, records)


def _has_blank(block: bytes) -> bool:
    return count_records(block) < block.count(b"\n") + (not block.endswith(b"\n"))


_FIRST_PIECE: Final = 4096
"""Bytes that are read at once to find the first record."""

_FIX: Final = (
    "double the quotes within values, or set csv.quote and csv.escape to what the file has"
)
_ESCAPED: Final = r'there are quotes with a backslash: set csv.escape: "\\"'

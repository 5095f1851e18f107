"""How the text of a CSV file is divided into records and values (RFC 4180, and what other programs write). Pure.

A value in quotes may contain line breaks, so a record may have several lines. Python's csv module decides where each one ends, for
the plan as for reading.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from inferrun.formats.jsonl.line_blocks import BOM, count_records, line_blocks, line_number
from inferrun.formats.jsonl.line_ranges import PIECE, place_of
from inferrun.plugins import InputError, InputFile, Limits
from inferrun.plugins.storage import StorageSpec

Encoding = Literal[
    "utf-8", "iso-8859-1", "iso-8859-2", "iso-8859-15", "windows-1250", "windows-1251", "windows-1252", "windows-1253",
    "windows-1254", "koi8-r", "shift_jis", "gb18030", "big5", "euc-jp", "euc-kr",
]  # fmt: skip
"""Those in which a byte that is a quote, a comma or a line break is never a part of another character."""

NOT_TEXT: Final = re.compile("[\udc80-\udcff]")
"""What decoded text has in place of a byte that is not valid."""

_CHARACTER: Final = re.compile("[\t -~]")


class CsvDialect(StorageSpec):
    """What the storage object of an input says about its CSV files."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    skip_initial_space: bool = Field(default=False, alias="skipInitialSpace")
    encoding: Encoding = "utf-8"
    header: bool | None = None
    columns: tuple[str, ...] = ()
    null_values: frozenset[str] = Field(default=frozenset(), alias="nullValues")

    @field_validator("delimiter", "quote", "escape")
    @classmethod
    def _is_character(cls, value: str, info: Any) -> str:  # Any: pydantic's
        if not (_CHARACTER.fullmatch(value) or (value == "" and info.field_name != "delimiter")):
            raise ValueError('must be one ASCII character, such as ";"; a tab is "\\t" in double quotes')
        return value

    @model_validator(mode="after")
    def _differ(self) -> Self:
        given = [one for one in (self.delimiter, self.quote, self.escape) if one]
        if len(set(given)) < len(given):
            raise ValueError("delimiter, quote and escape must be different characters")
        return self

    @property
    def has_header(self) -> bool:
        """Whether the first record of a file is none: it has the names of the columns, which `columns` replace."""
        return not self.columns if self.header is None else self.header

    def may_span(self, content: bytes) -> bool:
        """Whether records of this content may be something else than its lines that are not blank."""
        signs = (self.quote, self.escape, self.delimiter if self.delimiter.isspace() else "")
        return any(sign and sign.encode() in content for sign in signs)

    def parse(self, file: InputFile, content: bytes, *, offset: int) -> tuple[list["CsvRecord"], int]:
        """Return the complete records in whole lines that begin at `offset`, and the number of their bytes: the last one may go on
        after these. Raises InputError."""
        lines = BytesIO(content).readlines()
        text = (content if offset else content.removeprefix(BOM)).decode(self.encoding, "surrogateescape")
        reader = csv.reader(
            StringIO(text, newline="\n"),
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            escapechar=self.escape or None,
            skipinitialspace=self.skip_initial_space,
            strict=True,
        )
        found: list[CsvRecord] = []
        line, wrong = 0, ""
        try:
            for cells in reader:
                if len(cells) > 1 or (cells and b"".join(lines[line : reader.line_num]).strip()):
                    found.append(CsvRecord(line, cells))
                line = reader.line_num
        except csv.Error as error:
            wrong = str(error)
        size = sum(map(len, lines[:line]))
        if wrong and wrong != "unexpected end of data":
            text = f"{file.name} line {line_number(file, offset + size)} is not valid CSV: the quote that ends a value is not"
            text += f" followed by the delimiter or a line break, or a carriage return is not in quotes; {_FIX}"
            raise InputError(text, is_retryable=False)
        return found, size


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """The values of a record."""

    line: int
    """The number, from 0, of its first line in the content."""

    cells: list[str]


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
        return count_records(self.block.removeprefix(BOM)) if self.records is None else len(self.records)

    def rows(self, dialect: CsvDialect) -> Sequence[CsvRecord]:
        """Return the records."""
        return dialect.parse(self.file, self.block, offset=self.offset)[0] if self.records is None else self.records

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.offset + len(self.block)

    def place(self, line: int) -> str:
        """Return where a line is."""
        return place_of(self.file, self.offset, self.block, line)


def contents_of(
    file: InputFile, dialect: CsvDialect, *, start: int, end: int, piece: int, limits: Limits
) -> Iterator[CsvContent]:
    """Yield the records that begin between two positions, about `piece` bytes at a time. Raises InputError."""
    held, offset, wanted = b"", start, 0
    limit, piece = limits.record_bytes, min(piece, PIECE, limits.batch_bytes // 4)
    for at, block in line_blocks(file, start=start, end=end, line_limit=limit, piece=piece):
        offset = offset if held else at
        held += block
        if len(held) < wanted:
            continue
        if not dialect.may_span(held):
            yield CsvContent(file, offset, held, None)
            held = b""
            continue
        records, size = dialect.parse(file, held, offset=offset)
        if records:
            yield CsvContent(file, offset, held[:size], records)
        held, offset = held[size:], offset + size
        wanted = 2 * len(held)  # so that a long record is not parsed too often
        if len(held) > limit:
            break
    if held:
        records, size = dialect.parse(file, held, offset=offset)
        if size < len(held):
            text = f"{file.name} line {line_number(file, offset + size)} begins a value in quotes that does not end"
            raise InputError(f"{text} within {limit} bytes, or not before the file does; {_FIX}", is_retryable=False)
        yield CsvContent(file, offset, held, records)


_FIX: Final = "double the quotes within values, or set csv.quote and csv.escape to what the file has"

"""Divides CSV text into records and values, as the programs that wrote it mean it. Pure.

Python's csv module does not tell `""` from nothing, or a `"\\N"` in quotes from a null, and an
escape is to it "the next character, wherever it is". It reads the texts in which this makes no
difference, in a third of the time.
"""

import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import StringIO, TextIOWrapper
from typing import BinaryIO, Final, TypeAlias

csv.field_size_limit(sys.maxsize)

Cell: TypeAlias = str | None
"""A value; None is null."""

_PIECE: Final = 64 * 1024

_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_CODE: Final = "[0-7]{1,3}|x[0-9A-Fa-f]{1,2}|."
"""What may follow an escape that is decoded: the page of COPY of PostgreSQL 15, "Text Format";
MySQL and ClickHouse write \\0."""

_RETURN: Final = "a carriage return is not in quotes"
_UNCLOSED: Final = (
    "the quote that ends a value is not followed by the delimiter or a line break, or " + _RETURN
)
_OUTSIDE: Final = (
    "a quote outside quotes has an escape; if all of them do, set csv.escapeUnquoted: true"
)
_ZERO: Final = r"\0 before a digit is a NUL to some programs, and a number to others"


class Quoted(str):
    """A value that was in quotes."""

    __slots__ = ()


class WrongText(ValueError):
    """The text is not of this syntax; says why."""

    def __init__(self, text: str, line: int) -> None:
        """`line` is the number, from 0, of the first line of the record."""
        super().__init__(text)
        self.line = line


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """The values of a record."""

    line: int
    """The number, from 0, of its first line in the text."""

    cells: list[Cell]


@dataclass(frozen=True)
class CsvSyntax:
    """How values are separated, quoted and escaped."""

    delimiter: str = ","

    quote: str = '"'
    """Empty: values are never in quotes."""

    escape: str = ""
    """Within quotes, it takes the meaning of a quote and of itself; before anything else it is a
    character as any other."""

    decodes: bool = False
    """Whether it is an escape outside quotes, too, and makes characters of letters and digits:
    `\\n`, `\\x41`, `\\101`."""

    skips_space: bool = False
    """Whether blanks before a value are ignored."""

    nulls: frozenset[str] = frozenset({""})
    """What is null if it is not in quotes, before escapes are decoded."""

    encoding: str = "utf-8"
    """The encoding of the bytes that digits after an escape stand for."""

    def split(
        self, text: str, *, keeps_blank: bool = False, marks_quoted: bool = False
    ) -> tuple[list[CsvRecord], int]:
        """Return the records that end in the text, and the number of their lines: the last record
        may go on after it.

        Blank lines are records only if they are kept. Values in quotes are `Quoted` if they are
        marked. Raises WrongText.
        """
        if not marks_quoted and self._is_plain(text):
            return self._split_plain(text, keeps_blank=keeps_blank)
        found: list[CsvRecord] = []
        match, delimiter = self._cell.match, self.delimiter
        at = line = 0
        while at < len(text):
            end, cells = at, list[Cell]()
            while True:
                value = match(text, end)
                # its last line break is in the value
                if value is None or (value[3] == "" and text.endswith("\n")):
                    self._check_open(text, end, line)
                    return found, line
                quoted, plain, separator = value.groups()
                end = value.end()
                if quoted is None:
                    cells.append(self._unquoted(plain, line))
                else:
                    cell = self._unescaped(quoted, line)
                    cells.append(Quoted(cell) if marks_quoted else cell)
                if separator != delimiter:
                    break
            if len(cells) > 1 or self._is_record(text[at:end], keeps_blank=keeps_blank):
                found.append(CsvRecord(line, cells))
            line += text.count("\n", at, end) + (not text.endswith("\n", at, end))
            at = end
        return found, line

    def _is_plain(self, text: str) -> bool:
        """Whether Python's csv module finds the same values, and no quoted one could be taken for
        null."""
        if self.skips_space or (self.escape and self.escape in text):
            return False
        if not self.quote:
            return "\r" not in text
        before = (self.delimiter, "\n")
        return not any(
            found.start() == 0 or text[found.start() - 1] in before
            for null in self.nulls
            if self.quote + null + self.quote in text
            for found in self._quoted_null.finditer(text)
        )

    def _split_plain(self, text: str, *, keeps_blank: bool) -> tuple[list[CsvRecord], int]:
        reader = csv.reader(
            StringIO(text, newline="\n"),
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            strict=True,
        )
        lines = text.split("\n")
        found: list[CsvRecord] = []
        line, nulls = 0, self.nulls
        is_usual = nulls == {""}
        try:
            for found_row in reader:
                row = found_row or [""]
                cells = (
                    [cell or None for cell in row]
                    if is_usual
                    else [None if one in nulls else one for one in row]
                )
                if len(cells) > 1 or self._is_record(lines[line], keeps_blank=keeps_blank):
                    found.append(CsvRecord(line, cells))
                line = reader.line_num
        except csv.Error as error:
            if str(error) != "unexpected end of data":
                raise WrongText(_UNCLOSED, line) from error
        return found, line

    def _is_record(self, text: str, *, keeps_blank: bool) -> bool:
        """Whether a text with one value is a record. PostgreSQL before version 18 ends its text
        with a line `\\.`."""
        text = text.strip()
        return (
            text != f"{self.escape}."
            if text and self.decodes and not self.quote
            else bool(text) or keeps_blank
        )

    def _unquoted(self, text: str, line: int) -> Cell:
        if text in self.nulls:
            return None
        if self.decodes:
            return self._unescaped(text, line)
        if self.escape and self.escape + self.quote in text:
            raise WrongText(_OUTSIDE, line)
        return text

    def _unescaped(self, text: str, line: int) -> str:
        if not (self.escape and self.escape in text):
            return text.replace(self.quote * 2, self.quote) if self.quote else text
        found = self._escaped.sub(
            lambda one: _character(one[0][1:], line) if self.decodes else one[0][1], text
        )
        if found.isascii():
            return found
        # The bytes of a character may have one code each: \303\251.
        return found.encode(self.encoding, "surrogateescape").decode(
            self.encoding, "surrogateescape"
        )

    def _check_open(self, text: str, at: int, line: int) -> None:
        """Raise WrongText unless what begins there may go on after the text: a value in quotes, or
        an escape at its end."""
        found = self._open.match(text, at) if self.quote else None
        if (
            found.end() < len(text)
            if found
            else not (self.decodes and text.endswith((self.escape, "\n")))
        ):
            raise WrongText(_UNCLOSED, line)

    @cached_property
    def _cell(self) -> re.Pattern[str]:
        """What is in quotes, what is not, and what follows."""
        delimiter, quote, escape = map(re.escape, (self.delimiter, self.quote, self.escape))
        if self.decodes:
            plain = rf"(?:[^{delimiter}\n\r{escape}]++|\r(?!\n|\Z)|{escape}.)*+"
        else:
            plain = (
                rf"[^{delimiter}\n\r]*+" if quote else rf"(?:[^{delimiter}\n\r]++|\r(?!\n|\Z))*+"
            )
        either = (
            f"{quote}({self._within}){quote}|(?!{quote})({plain})" if quote else f"((?!))|({plain})"
        )
        return re.compile(rf"{self._space}(?:{either})({delimiter}|\r?\n|\r?\Z)", re.DOTALL)

    @cached_property
    def _open(self) -> re.Pattern[str]:
        escape = f"{re.escape(self.escape)}?" if self.escape else ""
        return re.compile(f"{self._space}{re.escape(self.quote)}{self._within}{escape}", re.DOTALL)

    @cached_property
    def _escaped(self) -> re.Pattern[str]:
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        after = _CODE if self.decodes else f"[{quote}{escape}]"
        return re.compile(f"{escape}(?:{after})" + (f"|{quote}{quote}" if quote else ""), re.DOTALL)

    @cached_property
    def _quoted_null(self) -> re.Pattern[str]:
        nulls = "|".join(map(re.escape, self.nulls)) if self.nulls else "(?!)"
        delimiter, quote = re.escape(self.delimiter), re.escape(self.quote)
        return re.compile(rf"{quote}(?:{nulls}){quote}(?={delimiter}|\r|\n|\Z)")

    @property
    def _within(self) -> str:
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        return f"(?:[^{quote}{escape}]++|{quote}{quote}" + (f"|{escape}.)*+" if escape else ")*+")

    @property
    def _space(self) -> str:
        return " *+" if self.skips_space else ""


def _character(code: str, line: int) -> str:
    """Return what a code stands for; a byte that is no character by itself as decoding with
    `surrogateescape` does."""
    if code in _LETTERS:
        return _LETTERS[code]
    if code[0] == "0":
        raise WrongText(_ZERO, line)
    if code[0].isdigit() or len(code) > 1:
        byte = int(code[1:], 16) if code[0] == "x" else int(code, 8) & 0xFF
        return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)
    return code


def marked_records(file: BinaryIO) -> Iterator[list[Cell]]:
    """Yield the records of a file as RFC 4180 has them, with values in quotes marked. Raises
    ValueError for another file."""
    text = TextIOWrapper(file, encoding="utf-8", newline="\n")
    syntax = CsvSyntax()
    held = list[str]()
    try:
        while piece := text.readlines(max(_PIECE, 2 * sum(map(len, held)))):
            held += piece
            records, lines = syntax.split("".join(held), keeps_blank=True, marks_quoted=True)
            yield from (record.cells for record in records)
            del held[:lines]
        if held:
            raise ValueError("a value in quotes does not end")
    finally:
        text.detach()

"""Parses `{"result": [[number or null, …], …]}` as it arrives, using memory that is independent of
the response's size. No I/O.

Rows contain only numbers and nulls, so the last `]` received closes the last complete row, and
everything before it is decoded at once by a fast JSON parser. Whatever a parser of the whole text
would reject is rejected here, too. Other members are skipped if they are small.
"""

import re
from typing import TypeAlias

import orjson

from inferrun.plugins import Json
from inferrun.plugins.rows import RowFault, width_of

Row: TypeAlias = "list[float | None]"

_BESIDE_LIMIT = 64 * 1024
"""Maximum bytes before and after the rows."""

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_END = re.compile(rb"\][ \t\r\n]*\]")
_RESULT = re.compile(rb'"result"[ \t\r\n]*:[ \t\r\n]*\[')


class ResultRows:
    """Parses a response piece by piece. ValueError describes how the response violates the
    format."""

    def __init__(self, *, row_limit: int) -> None:
        self._row_limit = row_limit
        self._held = b""
        self._in_rows = False
        self._is_first = True
        self._has_ended = False
        self._width = 0
        self._rows = 0

    def feed(self, piece: bytes) -> list[Row]:
        """Return the rows that this piece completes."""
        self._held += piece
        if not self._in_rows:
            self._held = self._held.removeprefix(_BOM)
            start = find_result(self._held)
            if start is None:
                if len(self._held) > _BESIDE_LIMIT:
                    raise ValueError(f'no "result" within the first {_BESIDE_LIMIT} bytes')
                return []
            self._held = self._held[start:]
            self._in_rows = True
        rows = [] if self._has_ended else self._take_rows()
        if self._has_ended and len(self._held) > _BESIDE_LIMIT:
            raise ValueError(f"more than {_BESIDE_LIMIT} bytes after the rows")
        return rows

    def close(self) -> None:
        """Raise ValueError if the response is incomplete."""
        if not self._has_ended:
            raise ValueError(
                "it ends before the array is closed"
                if self._in_rows
                else _describe_invalid(self._held)
            )
        try:
            orjson.loads(b'{"result":[]' + self._held)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"the text after the rows is not valid JSON ({error})") from error

    def _take_rows(self) -> list[Row]:
        if self._held.lstrip(_SPACE).startswith(b"]"):
            text, end, self._has_ended = b"", self._held.index(b"]") + 1, True
        elif found := _END.search(self._held):
            text, end, self._has_ended = self._held[: found.start() + 1], found.end(), True
        else:
            end = self._held.rfind(b"]") + 1
            if len(self._held) - end > self._row_limit:
                raise ValueError(f"row {self._rows} is longer than {self._row_limit} bytes")
            text = self._held[:end]
        self._held = self._held[end:]
        return self._decode(text) if text else []

    def _decode(self, text: bytes) -> list[Row]:
        body = text.lstrip(_SPACE)
        if not self._is_first:
            if not body.startswith(b","):
                raise ValueError(
                    f"a comma is missing between rows {self._rows - 1} and {self._rows}"
                )
            body = body[1:]
        self._is_first = False
        try:
            rows: list[Row] = orjson.loads(b"[" + body + b"]")
        except orjson.JSONDecodeError as error:
            raise ValueError(f"invalid JSON at row {self._rows} or later ({error})") from error
        try:
            width = width_of(rows)
        except RowFault as fault:
            raise ValueError(f"row {self._rows + fault.row} {fault.text}") from fault
        self._width = self._width or width
        if width != self._width:
            raise ValueError(
                f"row {self._rows} has {width} numbers, previous rows have {self._width}"
            )
        self._rows += len(rows)
        return rows


def find_result(text: bytes) -> int | None:
    """Return the offset after the opening bracket of the member `result`; None if it has not
    arrived.

    The bracket belongs to that member of the object itself if the text is valid JSON once both are
    closed after it.
    """
    start = text.lstrip(_SPACE)
    if start and not start.startswith(b"{") and not _BOM.startswith(text):
        raise ValueError("not a JSON object")
    for found in _RESULT.finditer(text):
        try:
            if orjson.loads(text[: found.end()] + b"]}").get("result") == []:
                return found.end()
        except orjson.JSONDecodeError:  # within a string, or a member of another object
            continue
    return None


def _describe_invalid(text: bytes) -> str:
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "not valid JSON" if text.strip() else "the body is empty"
    if not isinstance(value, dict):
        return "not a JSON object"
    return '"result" is not an array of rows' if "result" in value else 'no member "result"'

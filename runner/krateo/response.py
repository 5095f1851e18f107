"""Parses `{"result": [[number, …], …]}` as it arrives, in memory that does not grow with the answer. No I/O.

Rows hold only numbers, so the last `]` received closes the last whole row, and everything up to it is decoded at once by a fast
JSON parser; what a decoder would refuse in one go is refused here too. Members beside `result` are passed over, up to a limit.
"""

import re

import orjson

from runner.rows import RowFault, width_of
from runner.values import Json, Row

_BESIDE_LIMIT = 64 * 1024
"""Bytes before and after the rows at most."""

_SPACE = b" \t\r\n"
_END = re.compile(rb"\][ \t\r\n]*\]")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},"]', re.DOTALL)
_KEY = re.compile(rb'[ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)


class ResultRows:
    """Takes pieces of an answer and gives the rows that are whole; ValueError says what is not as agreed."""

    def __init__(self, *, row_limit: int) -> None:
        self._row_limit = row_limit
        self._held = b""
        self._in_rows = False
        self._is_first = True
        self._has_ended = False
        self._width = 0
        self._rows = 0

    def feed(self, piece: bytes) -> list[Row]:
        """The rows that this piece completes."""
        self._held += piece
        if self._has_ended:
            self._limit_rest()
            return []
        if not self._in_rows and not self._enter():
            return []
        return self._take_rows()

    def close(self) -> None:
        """The answer is over; raises ValueError if it is not whole."""
        if not self._has_ended:
            raise ValueError("it ends before the array is closed" if self._in_rows else _not_agreed(self._held))
        try:
            orjson.loads(b'{"result":[]' + self._held)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"what follows the rows is not JSON ({error})") from error

    def _enter(self) -> bool:
        """Pass over everything up to the first row; False while more is needed."""
        start = find_result(self._held)
        if start is None:
            if len(self._held) > _BESIDE_LIMIT:
                raise ValueError('it has no "result" near its start')
            return False
        self._held = self._held[start:]
        self._in_rows = True
        return True

    def _take_rows(self) -> list[Row]:
        if self._held.lstrip(_SPACE).startswith(b"]"):
            self._end(self._held.index(b"]") + 1)
            return []
        if end := _END.search(self._held):
            text = self._held[: end.start() + 1]
            self._end(end.end())
        else:
            cut = self._held.rfind(b"]") + 1
            if len(self._held) - cut > self._row_limit:
                raise ValueError(f"a row is longer than {self._row_limit} bytes")
            text, self._held = self._held[:cut], self._held[cut:]
        return self._decode(text) if text else []

    def _end(self, position: int) -> None:
        self._held = self._held[position:]
        self._has_ended = True
        self._limit_rest()

    def _limit_rest(self) -> None:
        if len(self._held) > _BESIDE_LIMIT:
            raise ValueError(f"more than {_BESIDE_LIMIT} bytes follow the rows")

    def _decode(self, text: bytes) -> list[Row]:
        body = text.lstrip(_SPACE)
        if not self._is_first:
            if not body.startswith(b","):
                raise ValueError(f"between rows {self._rows - 1} and {self._rows} a comma is missing")
            body = body[1:]
        self._is_first = False
        try:
            rows: list[Row] = orjson.loads(b"[" + body + b"]")
        except orjson.JSONDecodeError as error:
            raise ValueError(f"after row {self._rows} it is not JSON ({error})") from error
        self._check(rows)
        self._rows += len(rows)
        return rows

    def _check(self, rows: list[Row]) -> None:
        try:
            width = width_of(rows)
        except RowFault as fault:
            raise ValueError(f"row {self._rows + fault.row} {fault.text}") from fault
        self._width = self._width or width
        if width != self._width:
            raise ValueError(f"row {self._rows} has {width} numbers, earlier ones have {self._width}")


def find_result(text: bytes) -> int | None:
    """Where the first row of the member `result` may begin; None while the text is too short to tell."""
    position = len(text) - len(text.lstrip(_SPACE))
    if position == len(text):
        return None
    if text[position : position + 1] != b"{":
        raise ValueError("it is not a JSON object")
    position += 1
    while key := _KEY.match(text, position):
        if key.end() == len(text):
            return None
        if key[1] == b'"result"':
            if text[key.end() : key.end() + 1] != b"[":
                raise ValueError('its "result" is not an array of rows')
            return key.end() + 1
        after = _end_of_value(text, key.end())
        if after is None:
            return None
        if text[after : after + 1] == b"}":
            raise ValueError('it has no "result"')
        position = after + 1
    rest = text[position:].lstrip(_SPACE)
    if rest and not rest.startswith(b'"'):
        raise ValueError('it has no "result"')
    return None


def _end_of_value(text: bytes, start: int) -> int | None:
    """The place of the comma or brace after the value that begins at `start`; None if it is not there yet."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        match token[0]:
            case b'"':  # a text that has not ended yet
                return None
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}" | b"," if depth == 0:
                return token.start()
            case b"]" | b"}":
                depth -= 1
    return None


def _not_agreed(text: bytes) -> str:
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "it is not JSON" if text.strip() else "its body is empty"
    return (
        f'it has no "result", its members are {", ".join(value)}' if isinstance(value, dict) else "it is not an object"
    )

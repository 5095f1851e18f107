"""Where the members of a JSON object are in its text, so that one can be replaced and the others
stay as they are. Pure.

Python's decoder finds the ends of values. Unlike orjson, it accepts what is JSON and has no Python
value without loss: integers of any size, 1e400, and escapes of lone surrogates.
"""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Final, NoReturn

import orjson

from inferrun.plugins import Json

Span = tuple[int, int]
Path = tuple[str, ...]
"""The names that lead to a member, from the outermost object."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BLANKS: Final = re.compile(r"[ \t\n\r]*")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
"""Numbers are not converted: only their ends matter. Those of more than 4,300 digits cannot be."""


@dataclass(slots=True)
class Members:
    """The members of an object, and those of the member `within` it that is an object, too."""

    text: str
    within: str = ""
    spans: dict[Path, Span] = field(default_factory=dict)
    repeated: set[Path] = field(default_factory=set)
    """Those that the text has more than once; their span is the last one."""

    def raw(self, *path: str) -> str:
        """Return the text of a member; empty if there is none."""
        return self.text[slice(*self.spans.get(path, (0, 0)))]

    def string(self, *path: str) -> str | None:
        """Return the value of a member; None if it is not a string, or not one of valid Unicode."""
        raw = self.raw(*path)
        if not raw.startswith('"'):
            return None
        value: str = _DECODER.decode(raw)
        return None if _SURROGATE.search(value) else value

    def walk(self, start: int, path: Path = ()) -> int:
        """Add the members of the object that begins at `start`, and return where it ends. Raises
        ValueError for other text."""
        at = self._after(start, "{")
        if self.text[at : at + 1] == "}":
            return at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise ValueError("a member has no name")
            name, end = _DECODER.raw_decode(self.text, at)
            begin, key = self._after(end, ":"), (*path, name)
            is_walked = key == (self.within,) and self.text[begin : begin + 1] == "{"
            end = self.walk(begin, key) if is_walked else _DECODER.raw_decode(self.text, begin)[1]
            if key in self.spans:
                self.repeated.add(key)
            self.spans[key] = (begin, end)
            at = _end_of_blanks(self.text, end)
            if self.text[at : at + 1] == "}":
                return at + 1
            at = self._after(at, ",")

    def _after(self, at: int, sign: str) -> int:
        at = _end_of_blanks(self.text, at)
        if self.text[at : at + 1] != sign:
            raise ValueError(f"{sign} is missing at character {at + 1}")
        return _end_of_blanks(self.text, at + 1)


def members_of(text: str, *, within: str = "") -> Members:
    """Find the members of the object that a text is. Raises ValueError if it is not JSON, is nested
    too deeply, or no object."""
    members = Members(text, within)
    try:
        end = members.walk(0)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _end_of_blanks(text, end) != len(text):
        raise ValueError("there is more after the object")
    return members


def load_any(text: bytes) -> Json:
    """Decode JSON whose numbers and strings may have no Python value without loss. Raises
    ValueError with what it is not.

    In what orjson refuses, numbers that Python lacks are texts, and NaN and Infinity, which many
    Python servers write, are numbers.
    """
    try:
        decoded: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            decoded = _LENIENT.decode(text.decode())
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        except ValueError as error:
            raise ValueError("not valid JSON") from error
    return decoded


def has_constants(text: bytes) -> bool:
    """Whether a text that `load_any` has decoded has NaN or Infinity as a number, so that it is not
    JSON."""
    if b"NaN" not in text and b"Infinity" not in text:
        return False
    try:
        _DECODER.decode(text.decode())
    except ValueError:
        return True
    return False


def _short_integer(text: str) -> int | str:
    return int(text) if len(text) < _DIGITS else text


def _float(text: str) -> float | str:
    found = float(text)
    return found if math.isfinite(found) else text


_DIGITS: Final = 19
_LENIENT: Final = json.JSONDecoder(parse_int=_short_integer, parse_float=_float)


def _end_of_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at

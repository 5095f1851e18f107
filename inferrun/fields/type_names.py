"""The names of the types of columns, such as `decimal(20, 6)` or `list<float>`: their syntax. Pure.

The names are those of Arrow. They are read without pyarrow, so that the status of a config says
what the runner would.
"""

import re
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from pydantic import AfterValidator

T = TypeVar("T")

SIMPLE: Final = (
    "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float", "float32", "double",
    "float64", "string", "large_string", "binary", "large_binary", "date32", "json",
)  # fmt: skip

_ALLOWED: Final = (
    f"allowed are {', '.join(SIMPLE)}, decimal(precision, scale), timestamp[unit], timestamp[unit, zone], time32[unit], "
    "time64[unit], duration[unit], list<type>, type[length], and struct<name: type, …>"
)

_WORD: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]*)\s*")
_DECIMAL: Final = re.compile(r"\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)\s*")
_UNIT: Final = re.compile(r"\[\s*(s|ms|us|ns)\s*(?:,\s*([A-Za-z0-9_+:/-]+)\s*)?\]\s*")
_LENGTH: Final = re.compile(r"\[\s*(\d{1,9})\s*\]\s*")
_MAX_PRECISION: Final = 76
_UNITS: Final = {
    "timestamp": ("s", "ms", "us", "ns"),
    "time32": ("s", "ms"),
    "time64": ("us", "ns"),
    "duration": ("s", "ms", "us", "ns"),
}


class TypeMaker(Protocol[T]):
    """Makes what stands for a type."""

    def simple(self, name: str) -> T:
        """One of SIMPLE."""

    def decimal(self, precision: int, scale: int) -> T:
        """A precision of 1 to 76 digits."""

    def time(self, name: str, unit: str, zone: str | None) -> T:
        """A timestamp, time32, time64 or duration; only a timestamp has a zone."""

    def items(self, kind: T, length: int | None) -> T:
        """A list; `length` is that of each value, if they have the same one."""

    def struct(self, members: Sequence[tuple[str, T]]) -> T:
        """At least one member."""


def read_type(text: str, maker: TypeMaker[T]) -> T:
    """Return what the maker makes of a name. Raises ValueError, which names those that are
    allowed."""
    try:
        return _Reader(text, maker).read()
    except _NoType:
        raise ValueError(f"it is not a type; {_ALLOWED}") from None


class _NoType(Exception):
    pass


class _Reader(Generic[T]):
    def __init__(self, text: str, maker: TypeMaker[T]) -> None:
        self._text = text
        self._maker = maker
        self._at = 0

    def read(self) -> T:
        found = self._type()
        if self._at != len(self._text):
            raise _NoType
        return found

    def _type(self) -> T:
        found, maker = self._begin(self._word()), self._maker
        while given := self._next(_LENGTH):
            found = maker.items(found, int(given[1]))
        return found

    def _begin(self, name: str) -> T:
        maker = self._maker
        if name in SIMPLE:
            return maker.simple(name)
        if name == "decimal" and (given := self._next(_DECIMAL)):
            precision, scale = int(given[1]), int(given[2])
            if 1 <= precision <= _MAX_PRECISION:
                return maker.decimal(precision, scale)
        elif name in _UNITS and (given := self._next(_UNIT)):
            unit, zone = given.groups()
            if unit in _UNITS[name] and (zone is None or name == "timestamp"):
                return maker.time(name, unit, zone)
        elif name == "list" and self._takes("<"):
            item = self._type()
            if self._takes(">"):
                return maker.items(item, None)
        elif name == "struct" and self._takes("<"):
            members = [self._member()]
            while self._takes(","):
                members.append(self._member())
            if self._takes(">"):
                return maker.struct(members)
        raise _NoType

    def _member(self) -> tuple[str, T]:
        name = self._word()
        if not self._takes(":"):
            raise _NoType
        return name, self._type()

    def _word(self) -> str:
        if (found := self._next(_WORD)) is None:
            raise _NoType
        return found[1]

    def _next(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def _takes(self, sign: str) -> bool:
        """Whether the sign is next; it and the blanks after it are passed."""
        if not self._text.startswith(sign, self._at):
            return False
        rest = self._text[self._at + 1 :]
        self._at = len(self._text) - len(rest.lstrip())
        return True


class _Nothing:
    """Makes nothing of a name whose syntax is checked."""

    def simple(self, name: str) -> None: ...

    def decimal(self, precision: int, scale: int) -> None: ...

    def time(self, name: str, unit: str, zone: str | None) -> None: ...

    def items(self, kind: None, length: int | None) -> None: ...

    def struct(self, members: Sequence[tuple[str, None]]) -> None: ...


def _checked(text: str) -> str:
    read_type(text, _Nothing())
    return text


TYPE_NAME: Final = AfterValidator(_checked)
"""The rule of a text that names a type, after its length is checked."""

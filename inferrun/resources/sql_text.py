"""Divides the text of an SQL query into code, literals, names and comments, as PostgreSQL reads it.
Pure.

A placeholder stands for a value, so it belongs into code: in a literal it would be text, and in a
name it cannot be bound. The time is linear in the length of the text. What is not closed extends to
its end.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final


class PartKind(Enum):
    """What a part of a query is."""

    CODE = "code"
    LITERAL = "literal"
    DOLLAR_LITERAL = "dollar literal"
    NAME = "name"
    COMMENT = "comment"


_OPENING: Final = re.compile(
    # a $ within an identifier opens nothing
    r"\$\([^()]*\)|--|/\*|(?<![\w$])[eE]'|'|\"|(?<![\w$])\$(?:[^\W\d]\w*)?\$"
)
_LINE_END: Final = re.compile(r"[\r\n]")
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
_STRING_MARK: Final = {
    "'": re.compile(r"''|'"),
    '"': re.compile(r'""|"'),
    "e'": re.compile(r"\\.|''|'", re.DOTALL),
}


def parts_of(query: str) -> Iterator[tuple[PartKind, str]]:
    """The parts of a query, which together are the query."""
    at = 0
    while (opening := _OPENING.search(query, at)) is not None:
        if opening.start() > at:
            yield PartKind.CODE, query[at : opening.start()]
        kind, end = _closed(query, opening[0], opening.end())
        yield kind, query[opening.start() : end]
        at = end
    if at < len(query):
        yield PartKind.CODE, query[at:]


def _closed(query: str, opening: str, at: int) -> tuple[PartKind, int]:
    """What the opening begins, and where that ends."""
    if opening.startswith("$("):  # a placeholder opens no literal or comment
        return PartKind.CODE, at
    if opening == "/*":
        depth = 1
        for mark in _COMMENT_MARK.finditer(query, at):  # comments nest
            depth += 1 if mark[0] == "/*" else -1
            if not depth:
                return PartKind.COMMENT, mark.end()
        return PartKind.COMMENT, len(query)
    if opening == "--":
        line_end = _LINE_END.search(query, at)
        return PartKind.COMMENT, line_end.end() if line_end is not None else len(query)
    if opening.startswith("$"):
        end = query.find(opening, at)
        return PartKind.DOLLAR_LITERAL, len(query) if end < 0 else end + len(opening)
    marks = _STRING_MARK[opening.lower()].finditer(query, at)
    # two quotes, or an escaped one, stand for one
    ends = (mark.end() for mark in marks if len(mark[0]) == 1)
    return PartKind.NAME if opening == '"' else PartKind.LITERAL, next(ends, len(query))

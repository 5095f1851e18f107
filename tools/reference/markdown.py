"""Markdown from values. Pure."""

import re
from collections.abc import Iterable
from typing import Any

Row = tuple[str, ...]


def table(header: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; every cell is one line."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return plain(" ".join(text.split())).replace("|", r"\|")


def plain(text: str) -> str:
    """Text that may hold code in backticks, with what Markdown would take for HTML or emphasis
    escaped elsewhere."""
    parts = text.split("`")
    return "`".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", r"\*")


def code(value: Any) -> str:  # Any: of the field's own type
    """A default as a user would write it, in backticks; `empty` if there is nothing to write."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = ",".join(str(part) for part in value) if isinstance(value, tuple) else str(value)
    return f"`{text}`" if text else "empty"


def sentence(text: str) -> str:
    """`text` with an upper-case first letter and a full stop."""
    flat = " ".join(text.split())
    return flat[:1].upper() + flat[1:] + ("" if re.search(r"[.:!?]$", flat) else ".")

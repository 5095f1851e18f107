"""Text from outside, made safe to show in a status, an Event, a log, the Temporal UI or a command.
Pure.

Whatever comes from or describes a container, a server or another user's object passes through here
before it is shown.
"""

import re
import shlex
from typing import Final
from urllib.parse import urlsplit

_ESCAPE_SEQUENCE: Final = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movements
    "|\x1b[\\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC and other strings: titles, links
    "|\x1b[ -/]*[0-~]?"
)
"""Sequences that a terminal interprets. Without its first character, the rest of one would remain
as noise."""

_READ_FACTOR: Final = 8
"""How many times the limit is read at most: a text may consist of megabytes of spaces."""

_BACKTICKS: Final = re.compile("`+")


def one_line(text: str, *, limit: int = 512) -> str:
    """`text` on one line, without control characters and escape sequences, truncated to `limit`
    characters.

    Invisible characters and those that change the direction of the text count as control
    characters.
    """
    start = text[: limit * _READ_FACTOR]
    plain = _ESCAPE_SEQUENCE.sub(" ", start)
    flat = " ".join("".join(char if char.isprintable() else " " for char in plain).split())
    if len(flat) <= limit and len(start) == len(text):
        return flat
    return flat[: limit - 1] + "…"


def printable(line: str, *, limit: int) -> str:
    """A line for a terminal: as `one_line`, but with its spaces, which indent it. A tab becomes
    four."""
    plain = _ESCAPE_SEQUENCE.sub("", line[:limit].expandtabs(4))
    return "".join(char if char.isprintable() else " " for char in plain).rstrip()


def shell_command(*words: str, limit: int = 512) -> str:
    """A command to copy into a shell. Each word is made one line before it is quoted: what is
    removed afterwards, such as an escape sequence, could take a quotation mark with it.
    """
    return shlex.join(one_line(word, limit=limit) for word in words)


def code_span(text: str) -> str:
    """`text` as a code span of Markdown, in which no link, image, HTML or other markup has an
    effect."""
    flat = one_line(text, limit=2048)
    if not flat:
        return ""
    fence = "`" * (max(map(len, _BACKTICKS.findall(flat)), default=0) + 1)
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{flat}{space}{fence}"


def public_url(url: str) -> str:
    """`url` without user information, query and fragment, each of which may contain credentials."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "(invalid URL)"
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    address = f"[{host}]" if ":" in host else host
    return f"{scheme}{address}{f':{port}' if port is not None else ''}{parts.path}"

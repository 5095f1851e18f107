"""An invalid field of a resource, as people read it: its path of JSON names, its value and what is allowed. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from inferrun.fields.scalars import MESSAGE_LIMIT
from inferrun.text import one_line, public_url

SHOWN_VALUE_LIMIT: Final = 120

MAX_PROBLEMS: Final = 5
"""Problems that a message names. The search for problems ends with the next one."""

_SHOWN_MEMBERS: Final = 20

HIDDEN: Final = "(not shown)"
"""In place of a value that may be confidential."""

FIELD_LIMIT: Final = 200


@dataclass(frozen=True, kw_only=True)
class Problem:
    """An invalid field: its path of JSON names, its value as text, and what is allowed."""

    field: str
    value: str | None
    allowed: str

    def __str__(self) -> str:
        found = "is not set" if self.value is None else f'is "{self.value}"'
        return f"{self.field} {'is invalid' if self.value == HIDDEN else found}; {self.allowed}"


def invalid(field: str, value: object, allowed: str) -> Problem:
    """A problem whose value is shown; None stands for a field that is not set."""
    return Problem(field=field, value=None if value is None else shown(value), allowed=allowed)


def describe(problems: Iterable[Problem]) -> str:
    """The first problems on one line, for a status message."""
    first = list(islice(problems, MAX_PROBLEMS + 1))
    more = "; and more problems" if len(first) > MAX_PROBLEMS else ""
    return one_line("; and ".join(map(str, first[:MAX_PROBLEMS])), limit=MESSAGE_LIMIT - len(more)) + more


def shown(value: object) -> str:
    """`value` as text, truncated. Of a URL, the part that is public; of an object or list, which may contain anything, the keys
    or the length.
    """
    match value:
        case str():
            text = (public_url(value) if "://" in value else value)[: 8 * SHOWN_VALUE_LIMIT]
        case dict():
            text = f"{{{', '.join(islice(value, _SHOWN_MEMBERS))}}}"
        case list():
            text = f"a list of {len(value)}"
        case _:
            text = json.dumps(value, default=str)
    return one_line(text, limit=SHOWN_VALUE_LIMIT)

"""An invalid field of a resource, as people read it: its path of JSON names, its value and what is
allowed. Pure."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pydantic import BaseModel, ValidationError

from inferrun.fields.resource_model import model_in
from inferrun.fields.scalars import MESSAGE_LIMIT
from inferrun.suggestions import did_you_mean
from inferrun.text import one_line, public_url

SHOWN_VALUE_LIMIT: Final = 120

MAX_PROBLEMS: Final = 5
"""Problems that a message names. The search for problems ends with the next one."""

_SHOWN_MEMBERS: Final = 20

HIDDEN: Final = "(not shown)"
"""In place of a value that may be confidential."""

FIELD_LIMIT: Final = 200

CONFIDENTIAL: Final = frozenset({"headers", "payload", "headersFrom"})
"""Fields whose values may contain credentials: their problems are reported without the value."""

_URLS: Final = frozenset({"endpoint", "url"})
"""Fields of which only the part of a URL that is public is shown. An endpoint has no path, and what
stands there may be a key."""

_REQUIREMENTS: Final = {
    "missing": "it is required",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be an integer without quotes",
    "tuple_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""Requirements in the terms of a manifest, for pydantic's error types that use the terms of
Python."""


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
    return (
        one_line("; and ".join(map(str, first[:MAX_PROBLEMS])), limit=MESSAGE_LIMIT - len(more))
        + more
    )


def shown(value: object) -> str:
    """`value` as text, truncated. Of a URL, the part that is public; of an object or list, which
    may contain anything, the keys or the length.
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


def parse_problems(
    error: ValidationError, *, path: str = "", only: Collection[str] = ()
) -> tuple[Problem, ...]:
    """The first problems because of which an object at `path` is not what it should be, or those of
    pydantic's error types in `only`."""
    found = []
    entries = (one for one in error.errors(include_url=False) if not only or one["type"] in only)
    for entry in islice(entries, MAX_PROBLEMS + 1):
        names = [str(part) for part in entry["loc"]]
        kind = entry["type"]
        rule = entry["msg"]
        given = entry["input"]
        is_url = bool(names) and names[-1] in _URLS and isinstance(given, str)
        value = (
            HIDDEN
            if CONFIDENTIAL.intersection(names)
            else shown(_public_part(given, names[-1]) if is_url else given)
        )
        allowed = _REQUIREMENTS.get(kind) or f"allowed: {rule[:1].lower()}{rule[1:]}"
        if kind == "value_error":
            allowed = str(entry["ctx"]["error"])
        field = one_line(".".join(filter(None, [path, *names])), limit=FIELD_LIMIT)
        found.append(
            Problem(field=field, value=None if kind == "missing" else value, allowed=allowed)
        )
    return tuple(found)


def _public_part(url: str, name: str) -> str:
    public = public_url(url)
    scheme, separator, rest = public.rpartition("://")
    server = f"{scheme}{separator}{rest.partition('/')[0]}"
    return public if name == "url" else server or HIDDEN


def unknown_keys(value: object, *, model: type[BaseModel], path: str) -> Iterator[Problem]:
    """The keys that an object of the model does not have. A value may be a misplaced credential."""
    if not isinstance(value, dict):
        return
    below = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for key, inner in value.items():
        if key not in below:
            allowed = f"unknown key{did_you_mean(key, below)}; allowed are {', '.join(below)}"
            yield Problem(
                field=one_line(f"{path}.{key}", limit=FIELD_LIMIT), value=HIDDEN, allowed=allowed
            )
        elif (kind := model_in(below[key])) is not None and isinstance(inner, list):
            for at, one in enumerate(inner):
                yield from unknown_keys(one, model=kind, path=f"{path}.{key}.{at}")
        elif kind is not None:
            yield from unknown_keys(inner, model=kind, path=f"{path}.{key}")

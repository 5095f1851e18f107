"""Placeholders in the strings of a config, such as `$(params.region)` and
`$(interval.start:%Y-%m-%d)`. Pure.

A string with placeholders is parsed to pieces: its own text, and the placeholders between. What may
stand in for a placeholder depends on what the string is, a path or a query, which is decided
elsewhere (`inferrun.resources.templates`). The syntax is that of Kubernetes: `$(NAME)`, and `$$(`
for a literal `$(`. Every `$(` is a placeholder, so that a misspelt one is found.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from inferrun.suggestions import did_you_mean
from inferrun.text import one_line

PARAMS: Final = "params"
INTERVAL: Final = "interval"
RUN: Final = "run"

NAMES: Final = {"interval.start", "interval.end", "run.name", "run.namespace"}
"""What a placeholder may name besides parameters."""

PARAMETER_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.-]{0,62}"

DIRECTIVES: Final = "YymdHMSjuGVz"
"""The directives of strftime: those with digits alone, which are the same in every locale, and the
offset from UTC."""

RFC3339: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The format of a time without one of its own, in UTC."""

_OPENING: Final = re.compile(r"(\$?\$)\(")
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)


class InvalidPlaceholder(Exception):
    """What was `found` is not a placeholder, or not allowed where it is; `why` says what is, and
    which one was probably meant."""

    def __init__(self, why: str, *, found: str = "") -> None:
        self.why = why
        self.found = one_line(found, limit=100)
        super().__init__(f'"{self.found}" {why}' if found else why)


class NoValue(LookupError):
    """The run has no value for a placeholder."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What `$(params.NAME)`, `$(interval.start:FORMAT)` or `$(run.name)` stands for."""

    group: str
    member: str
    format: str = ""

    @property
    def name(self) -> str:
        """The name without the format."""
        return f"{self.group}.{self.member}"

    def __str__(self) -> str:
        return f"$({self.name}{f':{self.format}' if self.format else ''})"


Piece = str | Placeholder


@dataclass(frozen=True, slots=True)
class Values:
    """What the placeholders of a run stand for. The times of the interval are in its time zone."""

    run_name: str
    run_namespace: str
    parameters: Mapping[str, str]
    interval: tuple[datetime, datetime] | None

    def of(self, placeholder: Placeholder) -> str:
        """The value of a placeholder. Raises NoValue."""
        match placeholder.group, placeholder.member:
            case "params", name:
                if name not in self.parameters:
                    raise NoValue(f"spec.parameters.{name}")
                return self.parameters[name]
            case "interval", end:
                if self.interval is None:
                    raise NoValue("spec.interval")
                instant = self.interval[end == "end"]
                given = placeholder.format
                return (
                    instant.strftime(given) if given else instant.astimezone(UTC).strftime(RFC3339)
                )
            case _, "name":
                return self.run_name
            case _:
                return self.run_namespace


def has_placeholders(text: str) -> bool:
    """Whether a text must be parsed; others stay as they are."""
    return "$(" in text


def parse_template(text: str, *, declared: Collection[str] | None = None) -> Iterator[Piece]:
    """The pieces of a text. `declared` are the names of the parameters, None if any is allowed.
    Raises InvalidPlaceholder."""
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        if opening.start() > at:
            yield text[at : opening.start()]
        at = opening.end()
        if opening[1] == "$$":
            yield "$("
            continue
        end = text.find(")", at)
        if end < 0:
            raise InvalidPlaceholder(
                "has no closing parenthesis; write $$( for a literal $(", found=f"$({text[at:]}"
            )
        yield parse_placeholder(text[at:end], declared=declared)
        at = end + 1
    if at < len(text):
        yield text[at:]


def parse_placeholder(inside: str, *, declared: Collection[str] | None = None) -> Placeholder:
    """The placeholder with this text between the parentheses. Raises InvalidPlaceholder."""
    name, colon, given = inside.partition(":")
    group, _, member = name.partition(".")
    is_parameter = group == PARAMS and re.fullmatch(PARAMETER_NAME, member) is not None
    if name not in NAMES and not (is_parameter and (declared is None or member in declared)):
        raise InvalidPlaceholder(_unknown(name, declared=declared), found=f"$({inside})")
    if colon and group != INTERVAL:
        raise InvalidPlaceholder(
            "has a format, which only a time of the interval may have", found=f"$({inside})"
        )
    unknown = next(
        (one[1] for one in _DIRECTIVE.finditer(given) if one[1] not in {*DIRECTIVES, "%"}), None
    )
    if colon and (
        not given or unknown is not None or not (given.isascii() and given.isprintable())
    ):
        odd = (
            "an empty format"
            if not given
            else f"%{unknown} in its format"
            if unknown
            else "an odd format"
        )
        allowed = ", ".join(f"%{one}" for one in DIRECTIVES)
        raise InvalidPlaceholder(
            f"has {odd}; allowed are {allowed} and %%, as in %Y-%m-%d", found=f"$({inside})"
        )
    return Placeholder(group, member, given)


def _unknown(name: str, *, declared: Collection[str] | None) -> str:
    if declared is None:
        parameters = {f"{PARAMS}.{name.partition('.')[2]}"} if "." in name else set()
        listed = "$(params.NAME)"
    else:
        parameters = {f"{PARAMS}.{one}" for one in declared}
        listed = ", ".join(f"$({one})" for one in sorted(parameters)) or "no parameters"
    likely = did_you_mean(name, [*sorted(parameters), *sorted(NAMES)])
    others = ", ".join(f"$({one})" for one in sorted(NAMES))
    return f"is not known{likely}; allowed are {listed}, {others}, and $$( for a literal $("

"""The parameters that a config declares, and whether those of a run are as declared. Pure.

A config without declarations allows any parameter. Patterns are matched by the regular expressions
of Rust, which take a time that is linear in the value's length, and are limited so that compiling
all of a config's takes a fraction of a second.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field
from pydantic_core import SchemaError, SchemaValidator, core_schema

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.resource_model import ResourceModel
from inferrun.placeholders import PARAMETER_NAME
from inferrun.suggestions import did_you_mean
from inferrun.text import one_line

RESERVED_PARAMETERS: Final = ("job_uid", "pod_uid", "predictions")
"""Keys that the krateo protocol sets; a parameter of that name could forge the identity or the
results of a run."""

MAX_PARAMETERS: Final = 64
MAX_DEFAULT: Final = 1024
"""Characters of a default. With four times as many, the slowest patterns would match 64 of them in
a third of a second."""

MAX_REPETITIONS: Final = 100
"""Sum of the numbers in the repetitions of a pattern, such as {4}. With ten times as many, 64
patterns would take a second."""

_REPETITION: Final = re.compile(r"\{(?:[0-9]+\s*,)?\s*([0-9]+)")
_NOT_SUPPORTED: Final = re.compile(r"\\[pP]|[)}*+?]\s*\{|\(\?[a-zA-Z-]*x")
_ASCII: Final = {"w": "0-9A-Za-z_", "d": "0-9", "s": " \\t\\n\\r\\f\\v"}
"""What \\w, \\d and \\s stand for. Their tables of Unicode take most of the time of compiling a
pattern."""


class Parameter(ResourceModel):
    """A parameter that runs may set."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=f"^{PARAMETER_NAME}$")]
    """Name of the parameter in spec.parameters of a run, and in placeholders: $(params.NAME)."""

    description: Annotated[str, Field(max_length=1024)] | None = None
    """What the parameter is for; shown to whoever omits it."""

    default: Annotated[str, Field(max_length=MAX_DEFAULT)] | None = None
    """Value in runs that do not set the parameter. Default: none."""

    required: bool | None = None
    """If true, a run that does not set the parameter is rejected. Default: false."""

    pattern: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Regular expression that the whole value must match, such as [a-z]{2}. Default: any value."""

    allow_slashes: bool | None = None
    """If true, the value may contain / and \\ where it is part of a path or a URL. Default:
    false."""


def declaration_problems(parameters: Iterable[Parameter]) -> Iterator[Problem]:
    """What is wrong with the parameters that a config declares."""
    seen = set()
    for at, one in enumerate(parameters):
        field = f"spec.parameters.{at}"
        if one.name in seen:
            yield invalid(f"{field}.name", one.name, "but it is declared twice")
        seen.add(one.name)
        if one.name in RESERVED_PARAMETERS:
            yield invalid(
                f"{field}.name",
                one.name,
                f"the names {', '.join(RESERVED_PARAMETERS)} are reserved",
            )
        if one.required and one.default is not None:
            yield invalid(
                f"{field}.default",
                one.default,
                "not allowed with required: true; remove one of them",
            )
        fault = "" if one.pattern is None else _pattern_fault(one.pattern)
        if fault:
            yield invalid(f"{field}.pattern", one.pattern, fault)
        elif one.default is not None and not _is_match(one, one.default):
            yield invalid(f"{field}.default", one.default, f"must match the pattern {one.pattern}")


def given_problems(
    parameters: Iterable[Parameter], given: Mapping[str, str], *, config: str
) -> Iterator[Problem]:
    """What is wrong with the parameters of a run. The declarations, of the config of that name,
    must be valid."""
    declared = {one.name: one for one in parameters}
    if not declared:
        return
    for name, value in given.items():
        field = one_line(f"spec.parameters.{name}", limit=128)
        if name not in declared:
            allowed = (
                f"InferenceConfig {config} declares no such parameter{did_you_mean(name, declared)}"
            )
            yield invalid(field, value, f"{allowed}; declared are {', '.join(declared)}")
        elif not _is_match(declared[name], value):
            allowed = f"must match the pattern {declared[name].pattern} that InferenceConfig {config} declares"
            yield invalid(field, value, allowed)
    for one in declared.values():
        if one.required and one.name not in given:
            purpose = f": {one_line(one.description, limit=256)}" if one.description else ""
            yield invalid(
                f"spec.parameters.{one.name}",
                None,
                f"InferenceConfig {config} requires it{purpose}",
            )


def effective_parameters(
    parameters: Iterable[Parameter], given: Mapping[str, str]
) -> dict[str, str]:
    """The parameters of a run, with the defaults of those that it does not set."""
    return {one.name: one.default for one in parameters if one.default is not None} | dict(given)


def _is_match(parameter: Parameter, value: str) -> bool:
    return parameter.pattern is None or _compiled(parameter.pattern).isinstance_python(value)


def _pattern_fault(pattern: str) -> str:
    """Why a pattern is not allowed; empty if it is."""
    if not pattern.isprintable():
        return "must not contain control characters"
    if found := _NOT_SUPPORTED.search(pattern):
        text = (
            "it repeats a group or a repetition by a number"
            if found[0].endswith("{")
            else f"it contains {found[0]}"
        )
        return f"{text}, which is not supported; write it out, or use * or +"
    if sum(min(int(number), 10_000) for number in _REPETITION.findall(pattern)) > MAX_REPETITIONS:
        return f"its repetitions by a number may add up to {MAX_REPETITIONS} at most; use * or +"
    try:
        # By itself: one that closes a parenthesis of its surroundings would no longer have to match
        # the whole value.
        SchemaValidator(
            core_schema.str_schema(pattern=_in_ascii(pattern), regex_engine="rust-regex")
        )
        _compiled(pattern)
    except SchemaError as error:
        lines = [
            line.strip() for line in str(error).splitlines() if line.strip().startswith("error:")
        ]
        reason = lines[0].removeprefix("error:").strip() if lines else "it cannot be compiled"
        return f"must be a regular expression in the syntax of Rust and Go, such as [a-z]{{2}}: {reason}"
    return ""


def _compiled(pattern: str) -> SchemaValidator:
    whole = rf"\A(?:{_in_ascii(pattern)})\z"
    return SchemaValidator(core_schema.str_schema(pattern=whole, regex_engine="rust-regex"))


def _in_ascii(pattern: str) -> str:
    def of_class(escape: re.Match[str]) -> str:
        if (members := _ASCII.get(escape[1].lower())) is None:
            return escape[0]
        return f"[{'^' if escape[1].isupper() else ''}{members}]"

    return re.sub(r"\\(.)", of_class, pattern)

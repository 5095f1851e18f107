"""Templates over the columns of a record, in the syntax of Jinja2. Pure.

The columns are variables, and `params`, `run` and `row` are objects with the parameters of the run,
its name, and all columns. Values are data: what looks like a template within them stays as it is.
The sandbox does not protect the Pod from the author of the config, who may run any image, but from
accidents such as a text of a gigabyte.

Text has numbers as Python writes them, null as nothing, true and false, and lists and objects as
JSON. A string of a body that is a single expression has the type of its value.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, MutableMapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import SandboxedEnvironment

from inferrun.plugins import ContractError
from inferrun.suggestions import did_you_mean

Row = Mapping[str, Any]  # Any: what a column has

_PARAMS, _RUN, _ROW = "params", "run", "row"
_EXPRESSION: Final = re.compile(r"\s*\{\{-?(.*?)-?\}\}\s*", re.DOTALL)
_GLOBALS: Final = ("range", "namespace")
_REMOVED: Final = ("center", "format", "indent", "random", "wordwrap")
"""Filters that make a long text of a short one, and one whose result differs between attempts."""


class InvalidRecord(ValueError):
    """A record from which no request can be made. The message says why, without a value of the
    record."""


_FAULTS: Final = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What the expressions of a template raise for some values."""


class _Sandbox(SandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Return a plain dictionary: Jinja2's chain of maps takes longer to copy than a prompt to
        render."""
        return {**self.globals, **(d or {})}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # Any: Jinja's
        """Refuse what repeats or pads a text, and numbers of millions of digits."""
        if not all(isinstance(operand, (int, float, Decimal)) for operand in (left, right)):
            raise SecurityError(f"{operator} is only for numbers")
        if operator == "**" and abs(right) > _MAX_EXPONENT:
            raise SecurityError(f"an exponent may be at most {_MAX_EXPONENT}")
        return super().call_binop(context, operator, left, right)


_MAX_EXPONENT: Final = 100


class Templates:
    """Compiles the templates of a request, and knows which columns they read."""

    def __init__(
        self, *, parameters: Mapping[str, str], run: Mapping[str, str], max_bytes: int
    ) -> None:
        """`max_bytes` is the maximum size of a text that a template makes."""
        self._given: Row = {_PARAMS: dict(parameters), _RUN: dict(run)}
        self._max_bytes = max_bytes
        self._columns = dict[str, None]()
        self._reads_all = False
        self._environment = _Sandbox(
            undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_shown
        )
        self._environment.globals = {name: self._environment.globals[name] for name in _GLOBALS}
        self._environment.filters = {
            name: found for name, found in self._environment.filters.items() if name not in _REMOVED
        }
        self._environment.filters["tojson"] = json_text

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that the compiled templates read, in their order; None if they may read
        any."""
        return None if self._reads_all else tuple(self._columns)

    def read(self, *columns: str) -> None:
        """Add columns that are read without a template."""
        self._columns.update(dict.fromkeys(columns))

    def constant(self, source: str, *, field: str) -> str:
        """Render a template without columns. Raises ContractError."""
        names = self._variables(source, field=field)
        if names:
            raise ContractError(
                f"{field}: reads the column {names[0]!r}; it is the same for all records, so only params and run are allowed"
            )
        try:
            return self._render(self._environment.from_string(source).render, {}, field)
        except InvalidRecord as error:
            raise ContractError(str(error)) from error

    def text(self, source: str, *, field: str) -> Callable[[Row], str]:
        """Compile a template of a text. Raises ContractError. The returned function raises
        InvalidRecord."""
        self.read(*self._variables(source, field=field))
        return partial(self._render, self._environment.from_string(source).render, field=field)

    def value(self, source: Any, *, field: str) -> Callable[[Row], Any]:  # Any: JSON
        """Compile all strings in a JSON value; one that is a single expression has its type. As
        `text`."""
        match source:
            case dict():
                members = {
                    name: self.value(one, field=f"{field}.{name}") for name, one in source.items()
                }
                return lambda row: {name: of(row) for name, of in members.items()}
            case list():
                items = [self.value(one, field=f"{field}.{at}") for at, one in enumerate(source)]
                return lambda row: [of(row) for of in items]
            case str() if "{{" in source or "{%" in source or "{#" in source:
                expression = _EXPRESSION.fullmatch(source)
                try:
                    inner = expression[1] if expression else ""
                    found = self._environment.compile_expression(inner, undefined_to_none=False)
                except TemplateSyntaxError:  # several expressions, or none
                    return self.text(source, field=field)
                self.read(*self._variables(source, field=field))
                return partial(self._evaluate, found, field=field)
        return lambda _row: source

    def _variables(self, source: str, *, field: str) -> tuple[str, ...]:
        """Return the columns that a template names, and note whether it may read others. Raises
        ContractError."""
        try:
            tree = self._environment.parse(source)
            self._environment.compile(source)
        except TemplateSyntaxError as error:
            raise ContractError(f"{field}: line {error.lineno}: {error.message}") from error
        names = find_undeclared_variables(tree) - {_PARAMS, _RUN, _ROW}
        of_row, reads_row = _members_of(tree, _ROW)
        self._reads_all |= reads_row
        tests = {one.name for one in tree.find_all((nodes.Filter, nodes.Test))}
        has_default = not tests.isdisjoint({"default", "d", "defined", "undefined"})
        for group in (_PARAMS, _RUN):
            known = self._given[group]
            for name in sorted(_members_of(tree, group)[0] - set(known)):
                if name not in dir(dict) and not has_default:
                    hint = did_you_mean(name, known) or (
                        f"; {group} has {', '.join(known)}" if known else ""
                    )
                    raise ContractError(f"{field}: {group} has no {name!r}{hint}")
        return tuple(sorted(names | of_row))

    def _render(self, render: Callable[..., str], row: Row, field: str) -> str:
        text: str = self._evaluate(render, row, field=field)
        if len(text) > self._max_bytes:
            raise InvalidRecord(
                f"{field}: the text has {len(text)} characters, more than {self._max_bytes} are not sent"
            )
        return text

    def _evaluate(self, expression: Callable[..., Any], row: Row, field: str) -> Any:  # Any: JSON
        try:
            value = expression({**row, **self._given, _ROW: row})
            if isinstance(value, Undefined):
                str(value)  # raises UndefinedError with its name
        except _FAULTS as error:
            raise InvalidRecord(f"{field}: {_reason(error)}") from error
        return value


def json_text(value: Any) -> str:  # Any: what a column has
    """Return a value as JSON, in which integers have any size. Raises InvalidRecord for what JSON
    does not have."""
    try:
        text = orjson.dumps(value, default=_plain)
        if b"null" not in text:  # which would stand for NaN, too
            return text.decode()
    except orjson.JSONEncodeError:  # such as a long integer
        pass
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        kind = str(error).removeprefix("Object of type ").partition(" ")[0]
        why = "NaN or infinity" if "JSON compliant" in str(error) else f"a value of type {kind}"
        raise InvalidRecord(f"contains {why}, which JSON does not have") from error


def _plain(value: object) -> object:
    match value:
        case bytes():
            return b64encode(value).decode()
        case Decimal() | UUID() | timedelta():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON")


def _shown(value: Any) -> Any:  # Any: what an expression has
    """Return what stands in a text for the value of an expression."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case bytes():
            raise InvalidRecord("bytes are not text; name a column with an image in request.images")
        case list() | tuple() | dict():
            return json_text(value)
    return value


def _members_of(tree: nodes.Template, group: str) -> tuple[set[str], bool]:
    """Return the members of an object that a template names, and whether it uses the object in
    another way, too."""
    named = list[str]()
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        match node:
            case (
                nodes.Getattr(node=nodes.Name(name=name), attr=str(member))
                | nodes.Getitem(node=nodes.Name(name=name), arg=nodes.Const(value=str(member)))
            ) if name == group:
                named.append(member)
    uses = sum(node.name == group and node.ctx == "load" for node in tree.find_all(nodes.Name))
    return set(named), uses > len(named)


def _reason(error: Exception) -> str:
    """Return what is wrong with a record, without a value of it: messages of Python and Jinja2 may
    repeat values."""
    match error:
        case InvalidRecord():
            return str(error)
        case SecurityError():
            return f"not allowed in a template: {error.message}"
        case UndefinedError():
            return "the template names something that the record does not have"
    return f"cannot be rendered ({type(error).__name__})"

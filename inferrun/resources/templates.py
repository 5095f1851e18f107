"""Which strings of a storage object may have placeholders, and what their values may be there.
Pure.

A value never leaves its field: in a path it is one segment or a part of one, in a URL it is also
encoded and stands after the host, in JSON it is a part of a string, and in SQL it is bound. A
string without `$(` stays as it is.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, unquote

from inferrun.contract import MAX_BYTES
from inferrun.nesting import check_depth
from inferrun.placeholders import (
    INTERVAL,
    PARAMS,
    InvalidPlaceholder,
    NoValue,
    Placeholder,
    Values,
    has_placeholders,
    parse_template,
)
from inferrun.resources.parameters import Parameter
from inferrun.resources.sql_text import PartKind, parts_of
from inferrun.stores import Store

SETTING: Final = "inferrun.p"
"""What a value of a query is called in the session of the database, with its number from 1."""

_Piece = tuple[str, Placeholder | None]
"""A part of a resolved string, and the placeholder that it replaces."""

_SAMPLE: Final = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
_JSON_STRING: Final = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>\s*:)?')
_HALF_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]?$")
_SEPARATOR: Final = re.compile(r"[/\\]")
_SERVER: Final = re.compile(r"https?://[^/?#\\]+[/?]", re.IGNORECASE)


class UnfitValue(Exception):
    """A placeholder has no value, or one that must not stand where it is: a mistake of the run,
    unless the value is a default."""

    def __init__(self, placeholder: Placeholder, value: str | None, why: str) -> None:
        super().__init__(why)
        self.placeholder = placeholder
        self.value = value
        self.why = why


@dataclass(frozen=True, slots=True)
class Given:
    """What placeholders stand for, and the parameters that the config declares."""

    values: Values
    parameters: Mapping[str, Parameter]

    def may_have_slashes(self, placeholder: Placeholder) -> bool:
        """Whether the config allows the value to have several segments: by the declaration, or by
        the format of a time."""
        declared = self.parameters.get(placeholder.member) if placeholder.group == PARAMS else None
        return placeholder.group == INTERVAL or bool(declared and declared.allow_slashes)


@dataclass(frozen=True, slots=True)
class TemplateFault:
    """Why a string of a storage object cannot be resolved; `field` is its path of JSON names."""

    field: str
    template: str
    cause: InvalidPlaceholder | UnfitValue


_HAS_TEXT: Final = (str, dict, list)
"""What may have placeholders; a user may write any number of other members."""


@dataclass(slots=True)
class _Resolution:
    """The resolution of one storage object."""

    root: str
    """Where it is in the config."""

    given: Given
    places: Mapping[tuple[str, ...], Callable[["_Resolution", str], str]]
    faults: list[TemplateFault] = field(default_factory=list)
    bound: dict[Placeholder, int] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    room: int = MAX_BYTES
    """Characters that values may add. A template can name a long one many thousand times."""

    def of(self, value: Any, place: tuple[str | int, ...] = ()) -> Any:  # Any: free-form storage
        """The value at a place in the storage object: the keys and indexes that lead to it."""
        match value:
            case dict():
                return {
                    key: self.of(inner, (*place, key)) if isinstance(inner, _HAS_TEXT) else inner
                    for key, inner in value.items()
                }
            case list():
                return [self.of(inner, (*place, at)) for at, inner in enumerate(value)]
            case str() if has_placeholders(value):
                names = tuple(one for one in place if isinstance(one, str))
                try:
                    return self.places.get(names, _nowhere)(self, value)
                except (InvalidPlaceholder, UnfitValue) as cause:
                    field = ".".join(map(str, (self.root, *place)))
                    self.faults.append(TemplateFault(field, value, cause))
        return value

    def path(self, text: str) -> str:
        """A path of a file, or the key of an object."""
        pieces = list(self._checked(text))
        for piece, placeholder in pieces:
            if placeholder is not None and re.search(r"[*?]", piece):
                why = "must not contain * or ?, which are wildcards in the path of an input"
                raise UnfitValue(placeholder, piece, why)
        _check_segments(pieces)
        return _joined(pieces)

    def url_path(self, text: str) -> str:
        """A path of a URL, with or without a query."""
        encoded: list[_Piece] = []
        of_path: list[_Piece] = []
        is_query = False
        for piece, placeholder in self._checked(text):
            if placeholder is not None and encoded and _HALF_ESCAPED.search(encoded[-1][0]):
                raise InvalidPlaceholder(
                    "stands within an escaped character, such as %2F", found=str(placeholder)
                )
            part = piece if placeholder is None else quote(piece, safe=":" if is_query else ":/")
            encoded.append((part, placeholder))
            if not is_query:
                is_query = placeholder is None and "?" in part
                of_path.append((part.partition("?")[0], placeholder))
        _check_segments(of_path)
        return _joined(encoded)

    def url(self, text: str) -> str:
        """A URL, whose server has no placeholders."""
        if _SERVER.match(text.partition("$(")[0]) is None:
            raise InvalidPlaceholder(
                "placeholders may only stand after the host, as in https://files.example/$(params.day).jsonl"
            )
        return self.url_path(text)

    def header(self, text: str) -> str:
        """A header, whose name has no placeholders."""
        if ":" not in text.partition("$(")[0]:
            raise InvalidPlaceholder(
                "placeholders may only stand in the value of a header, after the colon"
            )
        return _joined(self._printable(text))

    def json(self, text: str) -> str:
        """A JSON object, in whose strings placeholders stand. The rest of it stays as it is:
        numbers could lose digits."""
        try:
            check_depth(text.encode())
            is_object = isinstance(json.loads(text), dict)
        except ValueError:
            is_object = False
        if not is_object:
            example = '{"day": "$(params.day)"}'
            raise InvalidPlaceholder(
                f"placeholders may only stand in the strings of a JSON object, as in {example}"
            )

        def resolved(found: re.Match[str]) -> str:
            inner = json.loads(found["text"])
            if not has_placeholders(inner):
                return found[0]
            if found["colon"]:
                raise InvalidPlaceholder(
                    "is the name of a member, which must not contain placeholders", found=inner
                )
            return json.dumps(_joined(self._pieces(inner)), ensure_ascii=False)

        return _JSON_STRING.sub(resolved, text)

    def object_name(self, text: str) -> str:
        """The name of an object, whose form is checked with its values."""
        return _joined(self._checked(text))

    def table(self, text: str) -> str:
        """The name of a table."""
        pieces = list(self._pieces(text))
        for piece, placeholder in pieces:
            if placeholder is not None and re.fullmatch("[A-Za-z0-9_]+", piece) is None:
                why = "must consist of letters, digits and underscores in the name of a table"
                raise UnfitValue(placeholder, piece, why)
        return _joined(pieces)

    def query(self, text: str) -> str:
        """The text of an SQL query, which reads the values from its session."""
        found: list[str] = []
        for kind, part in parts_of(text):
            if kind is PartKind.CODE:
                for piece in self._templates(part):
                    if isinstance(piece, str):
                        found.append(piece)
                        continue
                    if piece not in self.bound:
                        self.values.append(self._value_of(piece))
                        self.bound[piece] = len(self.values)
                    found.append(f"current_setting('{SETTING}{self.bound[piece]}')")
            elif kind is PartKind.COMMENT:
                found.append(part)
            else:
                _check_literal(kind, part)
                found.append(part if kind is PartKind.DOLLAR_LITERAL else part.replace("$$(", "$("))
        return "".join(found)

    def _templates(self, text: str) -> Iterator[str | Placeholder]:
        return parse_template(text, declared=self.given.parameters or None)

    def _pieces(self, text: str) -> Iterator[_Piece]:
        for piece in self._templates(text):
            yield (piece, None) if isinstance(piece, str) else (self._value_of(piece), piece)

    def _value_of(self, placeholder: Placeholder) -> str:
        try:
            value = self.given.values.of(placeholder)
        except NoValue:
            raise UnfitValue(placeholder, None, "it is required") from None
        if "\0" in value:
            raise UnfitValue(placeholder, value, "must not contain the character NUL")
        self.room -= len(value)
        if self.room < 0:
            raise UnfitValue(
                placeholder, value, f"is too long, because a contract has at most {MAX_BYTES} bytes"
            )
        return value

    def _printable(self, text: str) -> Iterator[_Piece]:
        for piece, placeholder in self._pieces(text):
            if placeholder is not None and not piece.isprintable():
                why = "must not contain line breaks and other characters that are not printed"
                raise UnfitValue(placeholder, piece, why)
            yield piece, placeholder

    def _checked(self, text: str) -> Iterator[_Piece]:
        for piece, placeholder in self._printable(text):
            if placeholder is not None and not piece:
                raise UnfitValue(placeholder, piece, "must not be empty")
            if (
                placeholder is not None
                and _SEPARATOR.search(piece)
                and not self.given.may_have_slashes(placeholder)
            ):
                is_parameter = placeholder.group == PARAMS
                remedy = (
                    "; the config may declare the parameter with allowSlashes: true"
                    if is_parameter
                    else ""
                )
                raise UnfitValue(placeholder, piece, f"must not contain / or \\{remedy}")
            yield piece, placeholder


def _joined(pieces: Iterable[_Piece]) -> str:
    return "".join(piece for piece, _ in pieces)


_KINDS: Final[dict[str, Callable[[_Resolution, str], str]]] = {
    "path": _Resolution.path,
    "url": _Resolution.url,
    "url_path": _Resolution.url_path,
    "header": _Resolution.header,
    "json": _Resolution.json,
    "object_name": _Resolution.object_name,
    "query": _Resolution.query,
    "table": _Resolution.table,
}
"""What a member of a storage object can be."""


@dataclass(frozen=True, slots=True)
class ResolvedObject:
    """An object of a label with values in place of its placeholders, except those in a query, whose
    `values` are bound."""

    storage: Any  # Any: free-form storage
    values: list[str]
    faults: list[TemplateFault]


# Any: free-form storage
def resolve_storage(storage: Any, *, model: type[Store], path: str, given: Given) -> ResolvedObject:
    """The object of a label, which is located at `path`, and why strings in it could not be
    resolved."""
    places = {names: _KINDS[kind] for names, kind in model.placeholders.items()}
    resolution = _Resolution(path, given, places)
    return ResolvedObject(resolution.of(storage), resolution.values, resolution.faults)


class _AnyName(dict[str, str]):
    """Parameters of a run that sets any of them."""

    def __contains__(self, _name: object) -> bool:
        return True

    def __missing__(self, _name: str) -> str:
        return "x"


def sample_of(parameters: Iterable[Parameter]) -> Given:
    """What placeholders may stand for in some run, with which a config is checked before there is
    one."""
    declared = {one.name: one for one in parameters}
    defaults = _AnyName(
        {name: one.default for name, one in declared.items() if one.default is not None}
    )
    return Given(Values("run", "namespace", defaults, (_SAMPLE, _SAMPLE)), declared)


def _nowhere(resolution: _Resolution, _text: str) -> str:
    allowed = (
        " and ".join(".".join(names) for names in resolution.places) or "no field of this label"
    )
    raise InvalidPlaceholder(f"must not contain placeholders; they are allowed in {allowed}")


def _check_segments(pieces: Iterable[_Piece]) -> None:
    """Raise UnfitValue if a value makes a segment of the path empty, or one that leaves it."""
    segment, owner = "", None
    for piece, placeholder in (*pieces, ("/", None)):
        for at, text in enumerate(piece.split("/")):
            if at:  # the segment before this one is complete
                parts = _SEPARATOR.split(unquote(segment))
                if owner is not None and (parts == [""] or not {".", ".."}.isdisjoint(parts)):
                    raise UnfitValue(*owner, 'must not make a part of the path empty, "." or ".."')
                segment, owner = "", None
            segment += text
            owner = (placeholder, piece) if placeholder is not None else owner


def _check_literal(kind: PartKind, part: str) -> None:
    """Raise InvalidPlaceholder if there is a placeholder in what is not code."""
    text = part if kind is PartKind.DOLLAR_LITERAL else part.replace("$$(", "")
    if (found := re.search(r"\$\([A-Za-z]+\.[^()]*\)", text)) is not None:
        unquoted = f"remove the quotes around it, as in = {found[0]}"
        fix = "a value cannot name a column or a table" if kind is PartKind.NAME else unquoted
        raise InvalidPlaceholder(f"stands between quotes; {fix}", found=found[0])

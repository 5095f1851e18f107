"""Decodes objects, list pages and watch events. An object that cannot be decoded does not affect
the others.

The API server accepts objects that are nested deeper than a JSON decoder supports (tested: 1,500
levels in a free-form field), so any user who may create a config could otherwise stop a watch.
Objects with free-form fields are checked on their bytes before they are parsed; one that is too
large or nested too deeply becomes a stub with the reason. Pure: no I/O.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from inferrun.kube.errors import PageTooLarge, error_of
from inferrun.kube.objects import MAX_FREE_FORM_CONTAINERS, SIZES, UNREADABLE, Object, Resource
from inferrun.nesting import TooDeep, check_depth

MALFORMED: Final = "MALFORMED"
"""The type of an event whose object could not be decoded; the API server never sends it.

Its object is a stub: `metadata` with name, namespace, UID and resourceVersion, and the reason under
`UNREADABLE`. It is empty if not even those are readable.
"""

MAX_PAGE_MEMBERS: Final = 1_000_000
"""Maximum number of commas in a page: each member takes about 120 bytes when it is parsed, however
small. 500 Pods have a quarter of that, and one object of the largest size that etcd stores has half
of it."""

_NOT_DECODED: Final = "it cannot be decoded, probably because it is nested too deeply"

_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]')
_EVENT: Final = re.compile(rb'{"type":"(?P<kind>[A-Z]+)","object":(?={)')

_IDENTITY: Final = re.compile(
    rb'"name":"(?P<name>[^"\\]+)","namespace":"(?P<namespace>[^"\\]+)",'
    rb'"resourceVersion":"(?P<resourceVersion>[0-9]+)","uid":"(?P<uid>[^"\\]+)"},"spec":'
)
"""The end of the metadata of a custom resource without owners, whose members the API server sorts.
Nothing before it can look like this: quotes inside strings are escaped, labels are followed by
another member, and the keys of managedFields have a prefix. It is found a hundred times faster than
by counting brackets."""

_STRINGS: Final = (b"name", b"namespace", b"uid", b"resourceVersion", b"continue")


@dataclass(frozen=True)
class Page:
    """One page of a list: `token` requests the next page and is empty on the last.

    `size` is that of the page in bytes; `malformed` has the items that could not be decoded, each
    reduced as described for `MALFORMED`.
    """

    version: str
    items: list[Object]
    token: str = ""
    size: int = field(default=0, compare=False)
    malformed: list[Object] = field(default_factory=list)


def read_object(raw: bytes, resource: Resource) -> Object:
    """An object, or the stub for it. Raises ValueError if `raw` is not an object."""
    if resource.is_free_form and (fault := free_form_fault(raw)):
        return _stub(raw, fault)
    value = orjson.loads(raw)
    if not isinstance(value, dict):
        raise ValueError("the response is not an object")  # noqa: TRY004 -- as for any other invalid response
    return value


def free_form_fault(raw: bytes) -> str:
    """Why an object with free-form fields must not be parsed, empty if it may be."""
    if len(raw) > SIZES.free_form:
        return (
            f"it has {len(raw)} bytes, at most {SIZES.free_form} are allowed; reduce spec.storage"
        )
    if raw.count(b"[") + raw.count(b"{") > MAX_FREE_FORM_CONTAINERS:
        return f"it has more than {MAX_FREE_FORM_CONTAINERS} lists and objects, with copies in metadata; reduce spec.storage"
    try:
        check_depth(raw)
    except TooDeep as error:
        return f"it is {error}; simplify spec.storage"
    return ""


def read_event(line: bytes, resource: Resource) -> tuple[str, Object]:
    """The type and object of one line of a watch. Raises KubeError for an ERROR event."""
    if resource.is_free_form and (fault := free_form_fault(line)):
        return _read_malformed_event(line, fault)
    try:
        event = orjson.loads(line)
        kind, item = event["type"], event["object"]
    except (ValueError, KeyError, TypeError):
        return _read_malformed_event(line, _NOT_DECODED)
    if kind == "ERROR":
        code = item.get("code") if isinstance(item, dict) else None
        raise error_of(code if isinstance(code, int) else 500, orjson.dumps(item))
    return kind, item


def read_page(raw: bytes, resource: Resource) -> Page:
    """One page of a list. Raises ValueError if `raw` is not a list, and PageTooLarge if it has too
    many members."""
    if not resource.is_free_form and raw.count(b",") > MAX_PAGE_MEMBERS:
        raise PageTooLarge(f"a page of {resource.plural} has more than {MAX_PAGE_MEMBERS} members")
    malformed: list[Object] = []
    try:
        try:
            if resource.is_free_form and free_form_fault(raw):
                raise ValueError("an item may be too large or nested too deeply")
            whole = orjson.loads(raw)
            metadata, items = whole["metadata"], whole.get("items") or []
        except ValueError:
            metadata, items, malformed = _read_each_item(raw, resource)
        token = metadata.get("continue") or ""
        return Page(
            version=str(metadata["resourceVersion"]),
            items=items,
            token=token,
            size=len(raw),
            malformed=malformed,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the response is not a list") from error


def _read_malformed_event(line: bytes, fault: str) -> tuple[str, Object]:
    """An event without most of its object; a deletion needs no more than that."""
    begin = _EVENT.match(line)
    if begin is not None:
        kind, item = begin["kind"], _stub(line[begin.end() :], fault)
    else:
        members = dict(_members(line))
        kind, item = members.get(b"type", b"")[1:-1], _stub(members.get(b"object", b""), fault)
    return ("DELETED" if item and kind == b"DELETED" else MALFORMED), item


def _read_each_item(raw: bytes, resource: Resource) -> tuple[Object, list[Object], list[Object]]:
    """The list's metadata, the items that can be decoded, and the others reduced to what identifies
    them."""
    members = dict(_members(raw))
    items: list[Object] = []
    malformed: list[Object] = []
    for _, part in _members(members.get(b"items", b"")):
        fault = free_form_fault(part) if resource.is_free_form else ""
        try:
            if fault:
                malformed.append(_stub(part, fault))
            else:
                items.append(orjson.loads(part))
        except ValueError:
            malformed.append(_stub(part, _NOT_DECODED))
    return _read_strings(members.get(b"metadata", b"")), items, malformed


def _stub(raw: bytes, fault: str) -> Object:
    """What replaces an object that is not parsed; empty if the identifying members of its metadata
    are missing."""
    names = _IDENTITY.search(raw)
    if names is not None:
        found = {key: text.decode() for key, text in names.groupdict().items()}
    else:
        found = _read_strings(dict(_members(raw)).get(b"metadata", b""))
    return (
        {"metadata": found, UNREADABLE: fault}
        if found.keys() >= {"name", "resourceVersion"}
        else {}
    )


def _read_strings(metadata: bytes) -> dict[str, str]:
    try:
        return {
            key.decode(): orjson.loads(text) for key, text in _members(metadata) if key in _STRINGS
        }
    except ValueError:
        return {}


def _members(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The key and text of each string, object and array directly inside an object or array, without
    recursion.

    Brackets are counted. The key is empty inside an array; the text of a truncated member is not
    returned.
    """
    depth, start, key = 0, 0, b""
    for token in _TOKENS.finditer(raw):
        mark = token[0]
        if mark in b"{[":
            depth += 1
            if depth == 2:
                start = token.start()
        elif mark in b"}]":
            if depth == 2:
                yield key, raw[start : token.end()]
            depth -= 1
        elif depth == 1:
            if raw[token.end() : token.end() + 1] == b":":
                key = mark[1:-1]
            else:
                yield key, mark

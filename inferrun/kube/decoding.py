"""Decodes list pages and watch events. An object that cannot be decoded does not affect the others.

The API server accepts objects that are nested deeper than a JSON decoder supports (tested: 1,500 levels in a free-form
field), so any user who may create a config could otherwise stop a watch. Pure: no I/O.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from inferrun.kube.errors import KubeError, error_of
from inferrun.kube.objects import Object

MALFORMED: Final = "MALFORMED"
"""The type of an event whose object could not be decoded; the API server never sends it.

Its object has only `metadata` with name, namespace, UID and resourceVersion, or is empty if not even those are readable.
"""

_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]')
_STRINGS: Final = (b"name", b"namespace", b"uid", b"resourceVersion", b"continue")


@dataclass(frozen=True)
class Page:
    """One page of a list: `token` requests the next page and is empty on the last.

    `malformed` has the items that could not be decoded, each reduced as described for `MALFORMED`.
    """

    version: str
    items: list[Object]
    token: str = ""
    malformed: list[Object] = field(default_factory=list)


def read_event(line: bytes) -> tuple[str, Object]:
    """The type and object of one line of a watch. Raises KubeError for an ERROR event."""
    try:
        event = orjson.loads(line)
        kind, item = event["type"], event["object"]
    except (ValueError, KeyError, TypeError):
        return _read_malformed_event(line)
    if kind == "ERROR":
        raise error_of_event(item)
    return kind, item


def error_of_event(status: object) -> KubeError:
    """The error for the `Status` object of an ERROR event."""
    code = status.get("code") if isinstance(status, dict) else None
    return error_of(code if isinstance(code, int) else 500, orjson.dumps(status))


def read_page(raw: bytes) -> Page:
    """One page of a list. Raises ValueError if `raw` is not a list."""
    malformed: list[Object] = []
    try:
        try:
            whole = orjson.loads(raw)
            metadata, items = whole["metadata"], whole.get("items") or []
        except ValueError:
            metadata, items, malformed = _read_each_item(raw)
        token = metadata.get("continue") or ""
        return Page(version=str(metadata["resourceVersion"]), items=items, token=token, malformed=malformed)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the response is not a list") from error


def _read_malformed_event(line: bytes) -> tuple[str, Object]:
    """An event without most of its object; a deletion needs no more than that."""
    members = dict(_members(line))
    item = _read_identity(members.get(b"object", b""))
    return ("DELETED" if item and members.get(b"type") == b'"DELETED"' else MALFORMED), item


def _read_each_item(raw: bytes) -> tuple[Object, list[Object], list[Object]]:
    """The list's metadata, the items that can be decoded, and the others reduced to what identifies them."""
    members = dict(_members(raw))
    items: list[Object] = []
    malformed: list[Object] = []
    for _, part in _members(members.get(b"items", b"")):
        try:
            items.append(orjson.loads(part))
        except ValueError:
            malformed.append(_read_identity(part))
    return _read_strings(members.get(b"metadata", b"")), items, malformed


def _read_identity(raw: bytes) -> Object:
    """An object with only the identifying members of its metadata; empty if they are missing."""
    found = _read_strings(dict(_members(raw)).get(b"metadata", b""))
    return {"metadata": found} if found.keys() >= {"name", "resourceVersion"} else {}


def _read_strings(metadata: bytes) -> dict[str, str]:
    try:
        return {key.decode(): orjson.loads(text) for key, text in _members(metadata) if key in _STRINGS}
    except ValueError:
        return {}


def _members(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The key and text of each string, object and array directly inside an object or array, without recursion.

    Brackets are counted. The key is empty inside an array; the text of a truncated member is not returned.
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

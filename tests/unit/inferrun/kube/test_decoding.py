"""What can be decoded is decoded; what cannot does not affect the rest."""

import json
from contextlib import suppress
from random import Random

import pytest

from inferrun.kube.decoding import MALFORMED, Page, read_event, read_page
from inferrun.kube.errors import Gone, KubeError, Overloaded

DEEP = '{"a":' * 1500 + "1" + "}" * 1500
NAMES = {"name": "deep", "namespace": "there", "uid": "u", "resourceVersion": "7"}


def item(name: str, text: str = "1") -> str:
    """An object as the API server writes it; unlike Python, it writes no spaces."""
    metadata = {**NAMES, "name": name, "labels": {"name": "not this one", "braces": '}]"{['}}
    return f'{{"kind":"K","metadata":{json.dumps(metadata, separators=(",", ":"))},"spec":{text}}}'


def page(*items: str, metadata: str = '{"resourceVersion":"9","continue":"more","remainingItemCount":3}') -> bytes:
    """A list of a custom resource, with its members in alphabetical order."""
    return f'{{"apiVersion":"a/v1","items":[{",".join(items)}],"kind":"KList","metadata":{metadata}}}'.encode()


def test_a_page_has_its_items_version_and_token() -> None:
    assert read_page(page(item("a"), item("b"))) == Page(
        version="9", items=[json.loads(item("a")), json.loads(item("b"))], token="more"
    )


def test_an_empty_page_may_have_null_for_its_items() -> None:
    assert read_page(b'{"metadata":{"resourceVersion":"9"},"items":null}') == Page(version="9", items=[])


def test_an_item_that_is_nested_too_deeply_is_reduced_to_its_identity() -> None:
    assert read_page(page(item("a"), item("deep", DEEP), item("b"))) == Page(
        version="9", items=[json.loads(item("a")), json.loads(item("b"))], token="more", malformed=[{"metadata": NAMES}]
    )


def test_metadata_that_is_nested_too_deeply_still_identifies_its_object() -> None:
    """managedFields are nested as deeply as the field that they describe."""
    metadata = json.dumps(NAMES, separators=(",", ":"))[:-1] + f',"managedFields":[{DEEP}]}}'
    found = read_page(page(f'{{"metadata":{metadata},"spec":{DEEP}}}'))
    assert (found.items, found.malformed) == ([], [{"metadata": NAMES}])


@pytest.mark.parametrize("raw", [b"", b"<html>", b"{}", b"[]", b"5", b'{"metadata":{}}', b'{"metadata":[]}'])
def test_what_is_not_a_list_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not a list"):
        read_page(raw)


def test_an_event_has_a_type_and_an_object() -> None:
    assert read_event(f'{{"type":"ADDED","object":{item("a")}}}\n'.encode()) == ("ADDED", json.loads(item("a")))


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_an_event_that_is_nested_too_deeply_is_reduced_to_its_identity(kind: str) -> None:
    line = f'{{"type":"{kind}","object":{item("deep", DEEP)}}}\n'.encode()
    assert read_event(line) == (MALFORMED, {"metadata": NAMES})


def test_a_deletion_needs_no_more_than_the_identity() -> None:
    line = f'{{"type":"DELETED","object":{item("deep", DEEP)}}}\n'.encode()
    assert read_event(line) == ("DELETED", {"metadata": NAMES})


@pytest.mark.parametrize("line", [b"", b"not JSON", b"5", b"{}", b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"me'])
def test_a_damaged_event_has_no_object(line: bytes) -> None:
    assert read_event(line) == (MALFORMED, {})


@pytest.mark.parametrize(
    ("status", "kind"),
    [({"code": 410, "message": "too old"}, Gone), ({"code": 500}, Overloaded), ({}, Overloaded), (None, Overloaded)],
)
def test_an_error_event_raises_its_error(status: object, kind: type[KubeError]) -> None:
    with pytest.raises(kind):
        read_event(json.dumps({"type": "ERROR", "object": status}).encode())


@pytest.mark.parametrize("seed", range(20))
def test_no_damage_to_an_event_raises_anything_but_a_server_error(seed: int) -> None:
    random = Random(seed)  # noqa: S311 -- damage, not a secret
    line = bytearray(f'{{"type":"MODIFIED","object":{item("a")}}}\n'.encode())
    for _ in range(200):
        line[random.randrange(len(line))] = random.choice(b'{}[]":,\\a\xff')
        with suppress(KubeError):
            read_event(bytes(line))


@pytest.mark.parametrize("text", ["", "\\", '"', '\\"', "}", "]}", '{"items":[', "é\n\t", "\\\\", '","metadata":{'])
def test_a_deep_item_leaves_the_others_as_they_are(text: str) -> None:
    other = {"metadata": {"name": "a", "resourceVersion": "1", text: [text, {text: [text]}]}, "spec": [[text], {}]}
    written = json.dumps(other, separators=(",", ":"))
    found = read_page(page(written, item("deep", DEEP), written))
    assert found.items == [other, other]
    assert found.malformed == [{"metadata": NAMES}]

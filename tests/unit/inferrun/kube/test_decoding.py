"""What can be decoded is decoded; what cannot does not affect the rest."""

import json
import time
from contextlib import suppress
from random import Random

import pytest

from inferrun.kube.decoding import (
    MALFORMED,
    MAX_PAGE_MEMBERS,
    Page,
    read_event,
    read_object,
    read_page,
)
from inferrun.kube.errors import Gone, KubeError, Overloaded, PageTooLarge
from inferrun.kube.objects import CONFIGS, RUNS, SIZES, unreadable_because

DEEP = '{"a":' * 1500 + "1" + "}" * 1500
REASON = "it cannot be decoded, probably because it is nested too deeply"
NAMES = {"name": "deep", "namespace": "there", "uid": "u", "resourceVersion": "7"}
STUB = {"metadata": NAMES, "unreadable": REASON}


def item(name: str, text: str = "1") -> str:
    """An object as the API server writes it; unlike Python, it writes no spaces."""
    metadata = {**NAMES, "name": name, "labels": {"name": "not this one", "braces": '}]"{['}}
    return f'{{"kind":"K","metadata":{json.dumps(metadata, separators=(",", ":"))},"spec":{text}}}'


def page(
    *items: str, metadata: str = '{"resourceVersion":"9","continue":"more","remainingItemCount":3}'
) -> bytes:
    """A list of a custom resource, with its members in alphabetical order."""
    return f'{{"apiVersion":"a/v1","items":[{",".join(items)}],"kind":"KList","metadata":{metadata}}}'.encode()


def test_a_page_has_its_items_version_and_token() -> None:
    assert read_page(page(item("a"), item("b")), RUNS) == Page(
        version="9", items=[json.loads(item("a")), json.loads(item("b"))], token="more"
    )


def test_an_empty_page_may_have_null_for_its_items() -> None:
    assert read_page(b'{"metadata":{"resourceVersion":"9"},"items":null}', RUNS) == Page(
        version="9", items=[]
    )


def test_an_item_that_is_nested_too_deeply_is_reduced_to_its_identity() -> None:
    assert read_page(page(item("a"), item("deep", DEEP), item("b")), RUNS) == Page(
        version="9",
        items=[json.loads(item("a")), json.loads(item("b"))],
        token="more",
        malformed=[STUB],
    )


def test_metadata_that_is_nested_too_deeply_still_identifies_its_object() -> None:
    """managedFields are nested as deeply as the field that they describe."""
    metadata = json.dumps(NAMES, separators=(",", ":"))[:-1] + f',"managedFields":[{DEEP}]}}'
    found = read_page(page(f'{{"metadata":{metadata},"spec":{DEEP}}}'), RUNS)
    assert (found.items, found.malformed) == ([], [STUB])


@pytest.mark.parametrize(
    "raw", [b"", b"<html>", b"{}", b"[]", b"5", b'{"metadata":{}}', b'{"metadata":[]}']
)
def test_what_is_not_a_list_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not a list"):
        read_page(raw, RUNS)


def test_an_event_has_a_type_and_an_object() -> None:
    assert read_event(f'{{"type":"ADDED","object":{item("a")}}}\n'.encode(), RUNS) == (
        "ADDED",
        json.loads(item("a")),
    )


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_an_event_that_is_nested_too_deeply_is_reduced_to_its_identity(kind: str) -> None:
    line = f'{{"type":"{kind}","object":{item("deep", DEEP)}}}\n'.encode()
    assert read_event(line, RUNS) == (MALFORMED, STUB)


def test_a_deletion_needs_no_more_than_the_identity() -> None:
    line = f'{{"type":"DELETED","object":{item("deep", DEEP)}}}\n'.encode()
    assert read_event(line, RUNS) == ("DELETED", STUB)


@pytest.mark.parametrize(
    "line", [b"", b"not JSON", b"5", b"{}", b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"me']
)
def test_a_damaged_event_has_no_object(line: bytes) -> None:
    assert read_event(line, RUNS) == (MALFORMED, {})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ({"code": 410, "message": "too old"}, Gone),
        ({"code": 500}, Overloaded),
        ({}, Overloaded),
        (None, Overloaded),
    ],
)
def test_an_error_event_raises_its_error(status: object, kind: type[KubeError]) -> None:
    with pytest.raises(kind):
        read_event(json.dumps({"type": "ERROR", "object": status}).encode(), RUNS)


@pytest.mark.parametrize("seed", range(20))
def test_no_damage_to_an_event_raises_anything_but_a_server_error(seed: int) -> None:
    random = Random(seed)  # noqa: S311 -- damage, not a secret
    line = bytearray(f'{{"type":"MODIFIED","object":{item("a")}}}\n'.encode())
    for _ in range(200):
        line[random.randrange(len(line))] = random.choice(b'{}[]":,\\a\xff')
        with suppress(KubeError):
            read_event(bytes(line), RUNS)


@pytest.mark.parametrize(
    "text", ["", "\\", '"', '\\"', "}", "]}", '{"items":[', "é\n\t", "\\\\", '","metadata":{']
)
def test_a_deep_item_leaves_the_others_as_they_are(text: str) -> None:
    other = {
        "metadata": {"name": "a", "resourceVersion": "1", text: [text, {text: [text]}]},
        "spec": [[text], {}],
    }
    written = json.dumps(other, separators=(",", ":"))
    found = read_page(page(written, item("deep", DEEP), written), RUNS)
    assert found.items == [other, other]
    assert found.malformed == [STUB]


def test_a_page_of_too_many_small_members_is_not_parsed() -> None:
    """Labels of three letters take twelve times as much memory as JSON."""
    small = json.dumps([""] * (MAX_PAGE_MEMBERS // 2), separators=(",", ":"))
    one = f'{{"metadata":{{"name":"a","resourceVersion":"1"}},"spec":{small}}}'
    assert len(read_page(page(one), RUNS).items) == 1
    with pytest.raises(PageTooLarge):
        read_page(page(one, one, one), RUNS)


LARGE = json.dumps({f"key{number}": number for number in range(60_000)}, separators=(",", ":"))


def config(name: str, spec: str, *, annotation: str = "") -> str:
    """A config as the API server writes it, with its members in order."""
    metadata = f'{{"annotations":{{"a":{json.dumps(annotation)}}},"generation":1,"labels":{{"name":"b"}},"managedFields":[{spec}]'
    names = f'"name":"{name}","namespace":"there","resourceVersion":"7","uid":"u"'
    return f'{{"apiVersion":"a/v1","kind":"C","metadata":{metadata},{names}}},"spec":{spec},"status":{{}}}}'


def test_a_config_that_is_too_large_becomes_a_stub_without_being_parsed() -> None:
    raw = config("large", LARGE)
    size = len(raw)
    assert size > SIZES.free_form
    reason = f"it has {size} bytes, at most {SIZES.free_form} are allowed; reduce spec.storage"
    stub = {"metadata": {**NAMES, "name": "large"}, "unreadable": reason}
    assert read_object(raw.encode(), CONFIGS) == stub
    kind, item = read_event(f'{{"type":"ADDED","object":{raw}}}\n'.encode(), CONFIGS)
    assert (kind, item["metadata"]) == (MALFORMED, stub["metadata"])
    assert "at most" in unreadable_because(item)
    assert read_event(f'{{"type":"DELETED","object":{raw}}}\n'.encode(), CONFIGS)[0] == "DELETED"
    found = read_page(page(config("a", "1"), raw, config("b", "2")), CONFIGS)
    assert ([one["metadata"]["name"] for one in found.items], found.malformed) == (
        ["a", "b"],
        [stub],
    )


def test_a_config_that_is_nested_too_deeply_becomes_a_stub_on_every_python_version() -> None:
    deep = '{"a":' * 70 + "1" + "}" * 70
    item = read_object(config("deep", deep).encode(), CONFIGS)
    assert (
        unreadable_because(item) == "it is nested more than 64 levels deep; simplify spec.storage"
    )


@pytest.mark.parametrize(
    "annotation",
    ['"name":"x","namespace":"y","resourceVersion":"1","uid":"z"},"spec":', "\\", '\\"'],
)
def test_the_identity_of_a_stub_cannot_be_forged_by_its_content(annotation: str) -> None:
    item = read_object(config("large", LARGE, annotation=annotation).encode(), CONFIGS)
    assert item["metadata"] == {**NAMES, "name": "large"}


def test_an_event_about_a_config_that_is_too_large_takes_milliseconds() -> None:
    line = f'{{"type":"MODIFIED","object":{config("large", LARGE)}}}\n'.encode()
    took = []
    for _ in range(5):
        began = time.perf_counter()
        read_event(line, CONFIGS)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.02

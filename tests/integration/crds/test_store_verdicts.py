"""Storage objects of every kind, given to the API server, the status of a config and the runner:
one verdict and one message."""

from pathlib import Path

import pytest

from inferrun.stores import SCHEMA_STORES
from inferrun.wellknown import CONFIG_KIND
from tests.integration.crds.server import Rejected, Server
from tests.store_objects import COMPLETE, StoreObject, store_objects
from tests.store_verdicts import opening_of, spec_of, status_of

PLACES = [*COMPLETE, ("output", "http"), ("output", "run")]


def objects_of(end: str, label: str) -> list[StoreObject]:
    """Without the values of a query, which the control side adds to what the runner opens."""
    return [
        one
        for one in store_objects()
        if (one.end, one.label) == (end, label) and one.title != "values"
    ]


@pytest.mark.parametrize(("end", "label"), PLACES)
def test_the_runner_says_what_the_status_has_said(end: str, label: str, tmp_path: Path) -> None:
    verdicts = {
        str(one): (status_of(one), opening_of(one, tmp_path)) for one in objects_of(end, label)
    }
    assert verdicts
    assert {title: said for title, said in verdicts.items() if said[0] != said[1]} == {}


@pytest.mark.parametrize(("end", "label"), PLACES)
def test_the_api_server_rejects_nothing_that_the_status_accepts(
    end: str, label: str, server: Server
) -> None:
    rejected = [one for one in objects_of(end, label) if answer_of(server, one)]
    assert [str(one) for one in rejected if not status_of(one)] == []
    assert bool(rejected) == (label in SCHEMA_STORES)


@pytest.mark.parametrize(
    ("end", "label", "member", "value"),
    [
        ("input", "file", "path", "../a"),
        ("output", "file", "path", "a\0b"),
        ("input", "file", "csv", {"delimiter": ";;"}),
        ("input", "krateo", "api", {"endpointRef": {"name": "handler"}, "verb": "FETCH"}),
        ("input", "krateo", "api", {"endpointRef": {"name": "handler"}, "headers": ["nothing"]}),
    ],
)
def test_the_api_server_gives_the_advice_of_the_status(
    server: Server, end: str, label: str, member: str, value: object
) -> None:
    more = {"format": "csv"} if member == "csv" else {}
    one = StoreObject("", end, label, {**COMPLETE[end, label], member: value, **more})
    said = status_of(one)
    assert said
    assert said.partition("; ")[2] in answer_of(server, one)


def answer_of(server: Server, one: StoreObject) -> str:
    """Why the API server rejects the object, empty if it does not."""
    try:
        server.try_out(CONFIG_KIND, spec_of(one))
    except Rejected as refusal:
        return refusal.message
    return ""

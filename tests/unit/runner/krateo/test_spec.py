"""The storage objects of `krateo` and `file`: what is taken, and how a wrong one is told."""

from typing import Any

import pytest

from inferrun.contract import Contract
from runner.errors import ContractError
from runner.file.spec import read_spec as read_file_spec
from runner.krateo.spec import Api, read_spec, refuse_reserved

CONTRACT = Contract(job_id="uid", job_name="inf-a", parameters={"table": "irises", "limit": "10"})


def krateo(**api: object) -> dict[str, Any]:  # Any: a storage object
    return {"api": {"endpointRef": {"name": "endpoint", "namespace": "ns"}, "path": "/compute/x", **api}}


def api(**members: object) -> Api:
    return read_spec(krateo(**members), side="input").api


def test_what_a_krateo_user_writes_is_taken() -> None:
    given = api(verb="POST", headers=["Accept: application/json", "Content-Type: application/json"])
    assert (given.verb, given.path, given.endpoint_ref.name) == ("POST", "/compute/x", "endpoint")
    assert given.header_items() == [("Accept", "application/json"), ("Content-Type", "application/json")]


def test_verb_headers_and_payload_may_be_left_out() -> None:
    given = api()
    assert (given.verb, given.header_items()) == ("POST", [])
    assert given.body(CONTRACT) == {"table": "irises", "limit": "10"}


def test_a_verb_may_be_in_small_letters() -> None:
    assert api(verb="get").verb == "GET"


def test_a_header_may_hold_colons_and_the_last_of_a_name_wins() -> None:
    given = api(headers=["X-Time: 10:30", "accept: text/plain", "Accept:application/json"])
    assert given.header_items() == [("X-Time", "10:30"), ("Accept", "application/json")]


def test_the_members_of_a_payload_stand_below_the_parameters() -> None:
    assert api(payload='{"limit": 5, "order": ["id"]}').body(CONTRACT) == {
        "limit": "10",
        "order": ["id"],
        "table": "irises",
    }


@pytest.mark.parametrize(
    ("spec", "field", "allowed"),
    [
        ({}, "output.krateo.api", "is required"),
        ({"api": {}}, "output.krateo.api.endpointRef", "is required"),
        ({"api": {"endpointRef": {}}}, "output.krateo.api.endpointRef.name", "is required"),
        ({"api": {"endpointRef": {"name": ""}}}, "output.krateo.api.endpointRef.name", "at least 1"),
        ({"api": "x"}, "output.krateo.api", "valid dictionary"),
        (krateo(verb="FETCH"), "output.krateo.api.verb", "GET, POST, PUT, PATCH, DELETE"),
        (krateo(headers=["Accept"]), "output.krateo.api.headers", '"Name: value"'),
        (krateo(headers=["A: b\r\nC: d"]), "output.krateo.api.headers", '"Name: value"'),
        (krateo(headers="Accept: x"), "output.krateo.api.headers", "valid tuple"),
        (krateo(payload="[1]"), "output.krateo.api.payload", "JSON object"),
        (krateo(payload="${ .x }"), "output.krateo.api.payload", "not JSON"),
        (krateo(pathh="x"), "output.krateo.api.pathh", "not permitted"),
        ({**krateo(), "more": 1}, "output.krateo.more", "not permitted"),
    ],
)
def test_a_wrong_krateo_object_names_the_field(spec: dict[str, Any], field: str, allowed: str) -> None:
    with pytest.raises(ContractError) as refused:
        read_spec(spec, side="output")
    assert str(refused.value).startswith(f"{field}:")
    assert allowed in str(refused.value)


@pytest.mark.parametrize("key", ["job_uid", "pod_uid", "predictions", "chunk", "offset"])
def test_a_reserved_name_is_refused(key: str) -> None:
    with pytest.raises(ContractError, match=rf"parameters: {key} is reserved"):
        refuse_reserved({"table": "x", key: "y"}, where="parameters")


def test_a_file_object_needs_claim_and_path_only() -> None:
    spec = read_file_spec({"claimName": "data", "path": "in/rows.jsonl"}, side="input")
    assert (spec.claim_name, spec.path, spec.format) == ("data", "in/rows.jsonl", "jsonl")


@pytest.mark.parametrize(
    ("spec", "field", "allowed"),
    [
        ({"path": "a"}, "input.file.claimName", "is required"),
        ({"claimName": "c"}, "input.file.path", "is required"),
        ({"claimName": "c", "path": ""}, "input.file.path", "at least 1"),
        ({"claimName": "c", "path": "/etc/passwd"}, "input.file.path", 'without ".."'),
        ({"claimName": "c", "path": "a/../../b"}, "input.file.path", 'without ".."'),
        ({"claimName": "c", "path": 5}, "input.file.path", "valid string"),
        ({"claimName": "c", "path": "a", "pathh": "b"}, "input.file.pathh", "not permitted"),
    ],
)
def test_a_wrong_file_object_names_the_field(spec: dict[str, Any], field: str, allowed: str) -> None:
    with pytest.raises(ContractError) as refused:
        read_file_spec(spec, side="input")
    assert str(refused.value).startswith(f"{field}:")
    assert allowed in str(refused.value)

"""The storage object of the label `krateo`."""

from typing import Any

import pytest

from inferrun.plugins import Contract, ContractError
from inferrun.plugins.storage import read_spec
from inferrun_krateo.spec import Api, KrateoSpec, reject_reserved

CONTRACT = Contract(job_id="uid", job_name="inf-a", parameters={"table": "irises", "limit": "10"})


def krateo(**api: object) -> dict[str, Any]:  # Any: a storage object
    return {
        "api": {"endpointRef": {"name": "endpoint", "namespace": "ns"}, "path": "/compute/x", **api}
    }


def api(**members: object) -> Api:
    return read_spec(krateo(**members), KrateoSpec, field="input.krateo").api


def test_the_object_of_a_krateo_user_is_accepted() -> None:
    given = api(verb="POST", headers=["Accept: application/json", "Content-Type: application/json"])
    assert (given.verb, given.path, given.endpoint_ref.name) == ("POST", "/compute/x", "endpoint")
    assert given.header_items() == [
        ("Accept", "application/json"),
        ("Content-Type", "application/json"),
    ]


def test_verb_headers_and_payload_are_optional() -> None:
    given = api()
    assert (given.verb, given.header_items()) == ("POST", [])
    assert given.body(CONTRACT) == {"table": "irises", "limit": "10"}


def test_a_verb_may_be_in_lower_case() -> None:
    assert api(verb="get").verb == "GET"


def test_a_header_may_contain_colons_and_the_last_of_a_name_wins() -> None:
    given = api(headers=["X-Time: 10:30", "accept: text/plain", "Accept:application/json"])
    assert given.header_items() == [("X-Time", "10:30"), ("Accept", "application/json")]


def test_parameters_override_the_members_of_the_payload() -> None:
    assert api(payload='{"limit": 5, "order": ["id"]}').body(CONTRACT) == {
        "limit": "10",
        "order": ["id"],
        "table": "irises",
    }


@pytest.mark.parametrize(
    ("spec", "field", "allowed"),
    [
        ({}, "output.krateo.api", "required"),
        ({"api": {}}, "output.krateo.api.endpointRef", "required"),
        ({"api": {"endpointRef": {}}}, "output.krateo.api.endpointRef.name", "required"),
        (
            {"api": {"endpointRef": {"name": ""}}},
            "output.krateo.api.endpointRef.name",
            "at least 1",
        ),
        ({"api": "x"}, "output.krateo.api", "must be an object"),
        (krateo(verb="FETCH"), "output.krateo.api.verb", "GET, POST, PUT, PATCH, DELETE"),
        (krateo(headers=["Accept"]), "output.krateo.api.headers.0", '"Name: value"'),
        (krateo(headers=["A: b\r\nC: d"]), "output.krateo.api.headers.0", "line breaks"),
        (krateo(headers=["A b: c"]), "output.krateo.api.headers.0", "the name must consist of"),
        (
            krateo(headers=["A\n: c4nary"]),
            "output.krateo.api.headers.0",
            "the name must consist of",
        ),
        (
            krateo(headers=["content-length: 5"]),
            "output.krateo.api.headers.0",
            "content-length is set by the HTTP client",
        ),
        (
            krateo(headers=["Transfer-Encoding: chunked"]),
            "output.krateo.api.headers.0",
            "remove it",
        ),
        (krateo(headers=["Host: a"]), "output.krateo.api.headers.0", "remove it"),
        (krateo(headers="Accept: x"), "output.krateo.api.headers", "must be a list"),
        (krateo(payload="[1]"), "output.krateo.api.payload", "JSON object"),
        (krateo(payload="${ .x }"), "output.krateo.api.payload", "JSON object"),
        (krateo(pathh="x"), "output.krateo.api.pathh", "did you mean path?"),
        ({**krateo(), "more": 1}, "output.krateo.more", "unknown key"),
    ],
)
def test_an_invalid_object_is_reported_with_its_field(
    spec: dict[str, Any], field: str, allowed: str
) -> None:
    with pytest.raises(ContractError) as rejected:
        read_spec(spec, KrateoSpec, field="output.krateo")
    assert str(rejected.value).startswith(f"{field} is")
    assert allowed in str(rejected.value)


@pytest.mark.parametrize("key", ["job_uid", "pod_uid", "predictions", "chunk", "offset"])
def test_a_reserved_name_is_rejected(key: str) -> None:
    with pytest.raises(ContractError, match=rf"parameters: {key} is reserved"):
        reject_reserved({"table": "x", key: "y"}, where="parameters")

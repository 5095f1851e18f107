"""The copy of a contract in a run's status has no credentials, and is otherwise the contract."""

import json
from typing import Any

import pytest

from inferrun.launches.public_contract import public_contract

SECRET = "c4nary"


def shown(**members: Any) -> dict[str, Any]:
    contract = {"jobId": "a", "jobName": "b", "kserve": {}, **members}
    public: dict[str, Any] = json.loads(public_contract(json.dumps(contract)))
    assert SECRET not in json.dumps(public)
    return public


def test_a_contract_without_credentials_is_shown_byte_by_byte() -> None:
    text = '{"jobId":"a",  "input":{"file":{"path":"in/é.jsonl"}},"kserve":{"modelUrl":"host/v2/models/a/infer"}}'
    assert public_contract(text) is text


@pytest.mark.parametrize("label", ["file", "s3", "gcs", "azure"])
def test_a_question_mark_in_a_path_of_files_is_no_query(label: str) -> None:
    text = json.dumps({"kserve": {}, "output": {label: {"path": "out/what?/why?"}}})
    assert public_contract(text) is text
    assert shown(output={label: {"path": "https://host/x?key=c4nary"}})["output"] == {
        label: {"path": "https://host/x"}
    }


def test_headers_that_describe_the_message_are_shown() -> None:
    headers = [
        "Accept: application/json",
        "content-type:application/json; charset=utf-8",
        "Accept-Language:  en",
    ]
    text = json.dumps(
        {"input": {"krateo": {"api": {"headers": headers, "verb": "POST"}}}, "kserve": {}}
    )
    assert public_contract(text) is text


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "X-Api-Key",
            "X-Auth",
            "X-Access-Token",
            "X-Amz-Signature",
        ),
        *(
            "X-Client-Secret",
            "Db-Password",
            "X-Credential",
            "X-Tenant",
            "Accept-Token",
            "Accept\u00a0",
            " ",
        ),
    ],
)
def test_the_value_of_any_other_header_is_not_shown(name: str) -> None:
    api = {"headers": [f"{name}: c4nary", "Accept: text/plain"], "verb": "POST"}
    shown_api = shown(input={"krateo": {"api": api}})["input"]["krateo"]["api"]
    assert shown_api == {"headers": [f"{name}: (not shown)", "Accept: text/plain"], "verb": "POST"}


def test_what_is_no_header_is_not_shown() -> None:
    headers = ["c4nary", 5, {"name": "Accept", "text": "c4nary"}]
    assert (
        shown(output={"own": {"headers": headers}})["output"]["own"]["headers"]
        == ["(not shown)"] * 3
    )


def test_the_values_of_headers_for_the_model_server_are_not_shown_unless_they_describe_the_request() -> (
    None
):
    headers = [
        {"name": "X-Tenant", "value": "c4nary"},
        {"name": "Host", "value": "iris.example"},
        {"name": "api-key"},
    ]
    public = shown(kserve={"headers": headers, "proxyUrl": "http://u:c4nary@proxy:3128"})["kserve"]
    assert public["headers"] == [{"name": "X-Tenant", "value": "(not shown)"}, *headers[1:]]
    assert public["proxyUrl"] == "http://proxy:3128"


def test_headers_may_be_an_object() -> None:
    headers = {"Accept": "text/plain", "Cookie": "c4nary", "X-Tenant": ["c4nary"]}
    public = shown(output={"own": {"Headers": headers}})["output"]["own"]["Headers"]
    assert public == {"Accept": "text/plain", "Cookie": "(not shown)", "X-Tenant": "(not shown)"}


def test_urls_are_shown_without_user_information_and_query() -> None:
    public = shown(
        kserve={"modelUrl": "user:c4nary@host:80/v2/models/a/infer?key=c4nary"},
        output={
            "krateo": {"api": {"path": "/x?token=c4nary"}},
            "own": {"api": {"path": "https://u:c4nary@host/x?y=c4nary"}},
            "s3": {"at": "https://u:c4nary@s3/b", "note": "50% @ 3?"},
        },
    )
    assert public["kserve"]["modelUrl"] == "host:80/v2/models/a/infer"
    assert public["output"]["krateo"]["api"]["path"] == "/x?(not shown)"
    assert public["output"]["s3"] == {"at": "https://s3/b", "note": "50% @ 3?"}


def test_the_credentials_of_a_custom_store_are_not_shown() -> None:
    public = shown(input={"own": {"token": "c4nary", "nested": [{"password": "c4nary"}]}})
    assert public["input"]["own"] == {
        "token": "(not shown)",
        "nested": [{"password": "(not shown)"}],
    }


@pytest.mark.parametrize(
    "key", ["secretAccessKey", "access_token", "clientSecret", "api-key", "dbPassword", "X-Api-Key"]
)
def test_a_name_that_ends_like_that_of_a_credential_is_one(key: str) -> None:
    assert shown(input={"own": {key: "c4nary"}})["input"]["own"] == {key: "(not shown)"}


@pytest.mark.parametrize("value", [5, True, ["c4nary", 5], [["c4nary"]]])
def test_a_credential_is_not_shown_whatever_its_type(value: object) -> None:
    assert shown(input={"own": {"password": value}})["input"]["own"] == {"password": "(not shown)"}


def test_a_reference_to_a_secret_is_shown() -> None:
    own = {"secret": {"name": "a", "key": "b"}, "tokenSecretRef": {"name": "a"}, "password": None}
    assert shown(input={"own": own})["input"]["own"] == own

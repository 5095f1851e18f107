"""The mounted endpoint Secret: address, credentials and TLS."""

import base64
from pathlib import Path

import pytest

from inferrun_krateo.endpoint import Endpoint, read_endpoint


def mounted(folder: Path, **keys: str) -> Endpoint:
    for key, value in {"server_url": "http://handler:8088", **keys}.items():
        (folder / key.replace("_", "-")).write_text(value)
    return read_endpoint(folder, secret="handler-endpoint")


def test_a_token_becomes_a_bearer_header_and_paths_are_joined_by_one_slash(tmp_path: Path) -> None:
    endpoint = mounted(tmp_path, server_url="http://handler:8088/base/\n", token="abc\n")
    assert endpoint.url("/compute/x") == "http://handler:8088/base/compute/x"
    assert endpoint.url("compute/x") == "http://handler:8088/base/compute/x"
    assert endpoint.url("") == "http://handler:8088/base"
    assert endpoint.authorization == "Bearer abc"


def test_credentials_do_not_appear_in_the_representation(tmp_path: Path) -> None:
    endpoint = mounted(
        tmp_path, token="abc-token", proxy_url="http://user:proxy-password@proxy:3128"
    )
    assert "abc-token" not in repr(endpoint)
    assert "proxy-password" not in repr(endpoint)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"server_url": ""}, "has no key server-url"),
        (
            {"server_url": "handler:8088"},
            "server-url of Secret 'handler-endpoint' must be an http or https URL",
        ),
        (
            {"server_url": "http://[::1"},
            "server-url of Secret 'handler-endpoint' must be an http or https URL",
        ),
        ({"token": "a", "username": "b", "password": "c"}, "both token and password"),
        (
            {"server_url": "http://user:pw@handler", "token": "a"},
            "user information in server-url besides token",
        ),
        (
            {"server_url": "http://user@handler", "password": "a"},
            "user information in server-url besides token",
        ),
        (
            {"proxy_url": "socks5://proxy"},
            "proxy-url of Secret 'handler-endpoint' must start with http://",
        ),
        (
            {"certificate_authority_data": "???"},
            "certificate-authority-data .* neither PEM nor base64",
        ),
        (
            {"certificate_authority_data": base64.b64encode(b"x").decode()},
            "certificates .* cannot be used",
        ),
        (
            {"client_certificate_data": "x"},
            "only one of client-certificate-data and client-key-data",
        ),
        ({"aws_access_key": "x"}, "aws-access-key, but AWS signatures are not supported"),
    ],
)
def test_an_invalid_secret_is_reported_with_its_key(
    tmp_path: Path, keys: dict[str, str], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        mounted(tmp_path, **keys)

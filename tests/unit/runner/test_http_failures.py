"""Descriptions of failed requests and responses in messages."""

import aiohttp

from runner.http_failures import describe_failure
from runner.network_failures import size_of


def test_a_response_is_described_by_its_size_and_never_by_its_content() -> None:
    assert size_of(b"") == "an empty body"
    assert size_of(b'{"error": "record [1, 2] is invalid"}') == "a body of 37 bytes"
    assert size_of(b"12345", is_whole=False) == "a body of at least 5 bytes"


def test_an_unexpected_failure_is_described_by_its_type() -> None:
    failure = aiohttp.ClientError("http://user:pa55@host/?token=t0ken")
    assert describe_failure(failure, seconds=1.0) == "ClientError"


def test_an_invalid_url_is_named_without_its_text() -> None:
    failure = aiohttp.InvalidURL("http://user:pa55@2130706433/?token=t0ken")
    assert describe_failure(failure, seconds=1.0) == "this is not a valid URL"


def test_a_connect_timeout_differs_from_a_slow_response() -> None:
    assert describe_failure(aiohttp.ConnectionTimeoutError(), seconds=600.0).startswith(
        "cannot connect within 10 s; check"
    )
    assert describe_failure(aiohttp.ConnectionTimeoutError(), seconds=3.0).startswith(
        "cannot connect within 3 s; check"
    )
    assert describe_failure(aiohttp.SocketTimeoutError(), seconds=600.0) == "no response within 600 s"

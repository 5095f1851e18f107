"""Descriptions of failed requests and excerpts of responses in messages."""

import aiohttp
import pytest

from runner.http_failures import describe_failure, excerpt


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error": "Model sklearn-iris not found"}', "Model sklearn-iris not found"),
        (b'{"error": {"code": 5}}', '{"error": {"code": 5}}'),
        (b"Traceback (most recent call last):\n  File", "Traceback (most recent call last): File"),
        (b"", "(empty body)"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_an_excerpt_is_one_short_line(body: bytes, shown: str) -> None:
    assert excerpt(body) == shown
    assert len(excerpt(body * 10_000)) <= 300


def test_a_connect_timeout_differs_from_a_slow_response() -> None:
    assert describe_failure(aiohttp.ConnectionTimeoutError(), seconds=600.0).startswith(
        "cannot connect within 10 s; check"
    )
    assert describe_failure(aiohttp.ConnectionTimeoutError(), seconds=3.0).startswith(
        "cannot connect within 3 s; check"
    )
    assert describe_failure(aiohttp.SocketTimeoutError(), seconds=600.0) == "no response within 600 s"

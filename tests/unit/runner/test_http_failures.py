"""Excerpts of responses in messages."""

import pytest

from runner.http_failures import excerpt


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

"""The responses of a data handler to a POST."""

import pytest

from inferrun_krateo.output import is_confirmed


@pytest.mark.parametrize(
    "body",
    [b"", b"  \n", b"ok", b"OK\n", b"{}", b'{"stored": 150}', b"[]", b"null", b'{"error": ""}'],
)
def test_these_bodies_confirm_that_predictions_are_stored(body: bytes) -> None:
    assert is_confirmed(body)


@pytest.mark.parametrize(
    "body",
    [b'{"error": "disk full"}', b"Traceback (most recent call last):\n", b"okay, but", b"<html>"],
)
def test_these_bodies_confirm_nothing_even_with_status_200(body: bytes) -> None:
    assert not is_confirmed(body)

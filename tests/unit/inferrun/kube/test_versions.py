"""Versions are compared only if both are decimal numbers."""

import pytest

from control.informer import is_older


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        ("9", "10", True),
        ("10", "10", False),
        ("11", "10", False),
        ("", "10", False),
        ("9", "", False),
        ("9", "abc", False),
        ("-9", "10", False),
        ("9" * 30, "1" + "0" * 30, True),
    ],
)
def test_a_version_is_older_if_its_number_is_smaller(
    version: str, than: str, *, expected: bool
) -> None:
    assert is_older(version, than=than) is expected

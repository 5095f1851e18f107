"""How many records may fail."""

import pytest

from inferrun.error_threshold import ErrorThreshold


@pytest.mark.parametrize(
    ("value", "records", "expected"),
    [
        (0, 100, 0),
        ("7", 100, 7),
        (7, 3, 7),
        ("5%", 100, 5),
        ("5%", 99, 4),
        ("0.1%", 999, 0),
        ("0.1%", 1000, 1),
        ("100%", 8, 8),
        ("0%", 8, 0),
        ("33.3333%", 3_000_000, 999_999),
    ],
)
def test_a_number_is_itself_and_a_percentage_is_rounded_down(
    value: int | str, records: int, expected: int
) -> None:
    assert ErrorThreshold.parse(value).allowed(records) == expected


@pytest.mark.parametrize(
    "value", [-1, "", "-1", "101%", "5 %", "%", "1e3", "5.%", "100.5%", "many", 10**9, "5%\n"]
)
def test_anything_else_is_rejected_with_what_is_allowed(value: int | str) -> None:
    with pytest.raises(ValueError, match="a number of records such as 10, or a percentage"):
        ErrorThreshold.parse(value)

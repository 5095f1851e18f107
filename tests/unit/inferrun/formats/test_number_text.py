"""Numbers in text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.number_text import number_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("-7", -7),
        ("+007", 7),
        ("1.", 1.0),
        (".5", 0.5),
        ("-4e2", -400.0),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
    ],
)
def test_a_number_is_read(text: str, number: float) -> None:
    found = number_of(text)
    assert (found, type(found)) == (number, type(number))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1_000",
        "١٢",
        "0x10",
        "inf",
        "-Infinity",
        "1e400",
        "1,5",
        "1 2",
        ".",
        "e5",
        "9" * 400,
    ],
)
def test_other_text_is_no_number(text: str) -> None:
    assert number_of(text) is None


def test_nan_is_a_number() -> None:
    assert str(number_of("NaN")) == "nan"


@given(st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_read_as_it_was_written(number: float) -> None:
    assert number_of(str(number)) == number

"""JSON whose numbers keep their texts where Python would round them."""

import json
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.exact_json import exact_value, is_rounded


@pytest.mark.parametrize(
    "number",
    ["123456789012345678.25", "1.000000000000000001", "99999999999999999999", "1e-400", "9007199254740993.0"],
)  # fmt: skip
def test_a_number_that_would_be_rounded_keeps_its_text(number: str) -> None:
    text = f'{{"a":[{{"b":{number}}}],"c":0.1}}'.encode()
    value = exact_value(text)
    assert orjson.dumps(value) == text
    assert is_rounded(value)
    assert not is_rounded(value["c"])


@pytest.mark.parametrize(
    "number",
    [
        "0.1",
        "1E5",
        "5e-324",
        "1.7976931348623157e308",
        "18446744073709551615",
        "0.30000000000000004",
    ],
)
def test_other_numbers_are_those_of_python(number: str) -> None:
    for text in (
        f"[{number}]",
        f'["1234567890123456789012", "é", {number}]',
        f'{{"\\u00e9": {number}}}',
    ):
        value = exact_value(text.encode())
        assert value == json.loads(text)
        assert not is_rounded(value)


NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][-+]?[0-9]{1,2})?", fullmatch=True
)


@given(NUMBERS)
def test_every_number_is_exact(number: str) -> None:
    found = orjson.dumps(exact_value(number.encode())).decode()
    digits = len(Decimal(number).as_tuple().digits)
    assert Decimal(number) in (Decimal(found), Decimal(f"{float(found):.{digits}g}"))


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(17, 30))
def test_a_double_with_more_digits_than_it_needs_is_that_double(number: float, digits: int) -> None:
    value = exact_value(f"[{number:.{digits}e}]".encode())
    assert value == [number]
    assert not is_rounded(value)


def test_what_is_no_json_is_refused() -> None:
    for text in (b"[NaN]", b"[1e999]", b"[01]", b"{", b'["\\ud800"]'):
        with pytest.raises(ValueError, match="column"):
            exact_value(text)

"""Templates over the columns of a record."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.plugins import ContractError
from inferrun_runner.protocols.prompts.templates import InvalidRecord, Templates, json_text


def templates(**parameters: str) -> Templates:
    return Templates(parameters=parameters, run={"id": "uid", "job": "inf-x"}, max_bytes=1000)


def text(source: str, row: dict[str, Any], **parameters: str) -> str:  # Any: a row
    return templates(**parameters).text(source, field="request.prompt")(row)


@given(st.text())
def test_a_value_arrives_verbatim(value: str) -> None:
    assert text("<{{ title }}>", {"title": value}) == f"<{value}>"


@pytest.mark.parametrize(
    "value", ["{{ 7*7 }}", "{% raw %}", "{# a #}", "<b>&amp;</b>", "{{ row }}", "\n\n", "\ud800"]
)
def test_a_value_is_data_and_never_a_template(value: str) -> None:
    assert text("{{ title }}", {"title": value}) == value
    compiled = templates().value({"a": "{{ title }}", "b": "x {{ title }}"}, field="request.body")
    assert compiled({"title": value}) == {"a": value, "b": f"x {value}"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "true"),
        (1.5, "1.5"),
        (123456789012345678901234567890, "123456789012345678901234567890"),
        (Decimal("1.10"), "1.10"),
        (datetime.date(2026, 11, 23), "2026-11-23"),
        (["a", None, 1], '["a",null,1]'),
        ({"ü": [True]}, '{"ü":[true]}'),
    ],
)
def test_values_have_a_form_that_models_know(value: object, shown: str) -> None:
    assert text("{{ x }}", {"x": value}) == shown


@pytest.mark.parametrize("value", [None, 1, 2.5, True, ["a"], {"a": None}, "x"])
def test_a_single_expression_has_the_type_of_its_value(value: object) -> None:
    compiled = templates().value({"a": ["{{ x }}", " {{- x -}} "], "n": 1}, field="request.body")
    assert compiled({"x": value}) == {"a": [value, value], "n": 1}


def test_several_expressions_are_a_text() -> None:
    assert templates().value("{{ x }}{{ x }}", field="request.body")({"x": 1}) == "11"


def test_parameters_the_run_and_the_row_are_objects() -> None:
    row = {"title": "a", "odd name": "b"}
    assert (
        text('{{ params.product }} {{ run.job }} {{ row["odd name"] }}', row, product="p")
        == "p inf-x b"
    )


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("{{ b }} {{ a | upper }}", ("a", "b")),
        ('{{ row["odd name"] }} {{ row.x }}', ("odd name", "x")),
        ("{% for one in items %}{{ one.name }}{{ loop.index }}{% endfor %}", ("items",)),
        ("{% set a = b %}{{ a }}", ("b",)),
        ("{{ params.a }}", ()),
        ("{{ row | tojson }}", None),
        ("{% for name in row %}{{ row[name] }}{% endfor %}", None),
        ("{{ range(3) | list }}", ()),
        ("{% if a is defined %}{{ a }}{% endif %}", ("a",)),
    ],
)
def test_the_columns_are_those_that_the_templates_read(
    source: str, columns: tuple[str, ...] | None
) -> None:
    found = templates(a="1")
    found.text(source, field="request.prompt")
    assert found.columns == columns


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "a\n{{ title",
            "request.prompt: line 2: unexpected end of template, expected 'end of print statement'.",
        ),
        ("{{ title | shout }}", "request.prompt: line 1: No filter named 'shout'."),
        ("{% if x %}", "request.prompt: line 1: Unexpected end of template."),
        ("{{ params.produkt }}", "request.prompt: params has no 'produkt', did you mean product?"),
        ("{{ x | indent(10) }}", "request.prompt: line 1: No filter named 'indent'."),
    ],
)
def test_a_template_that_cannot_be_used_is_described_with_its_line(
    source: str, message: str
) -> None:
    with pytest.raises(ContractError) as raised:
        templates(product="p").text(source, field="request.prompt")
    assert str(raised.value).startswith(message)


def test_a_parameter_with_a_default_may_be_missing() -> None:
    assert text("{{ params.produkt | default('none') }}", {}, product="p") == "none"
    assert text("{{ params.get('produkt', 'none') }}", {}, product="p") == "none"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('{{ "x" * 100000000 }}', "not allowed in a template: * is only for numbers"),
        ('{{ "%100000000d" % x }}', "not allowed in a template: % is only for numbers"),
        ("{{ [1] * 100000000 }}", "not allowed in a template: * is only for numbers"),
        ("{{ 9 ** 999 }}", "not allowed in a template: an exponent may be at most 100"),
        ("{{ ''.__class__.__mro__ }}", "not allowed in a template"),
        (
            "{% for i in range(2000) %}x{% endfor %}",
            "the text has 2000 characters, more than 1000 are not sent",
        ),
        ("{% for i in range(200000) %}x{% endfor %}", "cannot be rendered (OverflowError)"),
        ("{{ s.a.b }}", "the template names something that the record does not have"),
        ("{{ s + x }}", "cannot be rendered (TypeError)"),
        ("{{ x / 0 }}", "cannot be rendered (ZeroDivisionError)"),
        ("{{ b }}", "bytes are not text"),
        ("{{ [n] }}", "contains NaN or infinity"),
    ],
)
def test_a_record_that_cannot_be_rendered_is_described_without_its_values(
    source: str, message: str
) -> None:
    with pytest.raises(InvalidRecord) as raised:
        text(source, {"s": "c4nary", "x": 4711, "b": b"c4nary", "n": float("nan")})
    assert "request.prompt: " + message in str(raised.value)
    assert "c4nary" not in str(raised.value)
    assert "4711" not in str(raised.value)


def test_a_system_message_is_rendered_once() -> None:
    assert (
        templates(product="p").constant("For {{ params.product }}", field="request.system")
        == "For p"
    )
    with pytest.raises(ContractError, match=r"request.system: reads the column 'title'"):
        templates().constant("{{ title }}", field="request.system")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    )
)
def test_json_text_loses_nothing(value: object) -> None:
    assert json.loads(json_text(value)) == value


def test_json_text_has_surrogates_as_escapes_and_no_nan() -> None:
    assert json_text({"a": "\ud800", "b": 2**70}) == '{"a":"\\ud800","b":1180591620717411303424}'
    assert (
        json_text([b"\xff", Decimal("1.10"), datetime.date(2026, 1, 2)])
        == '["/w==","1.10","2026-01-02"]'
    )
    for odd in (float("nan"), float("inf"), object()):
        with pytest.raises(InvalidRecord):
            json_text(odd)

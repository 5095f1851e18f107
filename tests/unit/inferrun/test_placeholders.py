"""Placeholders: their syntax, what they stand for, and what is said about those that do not
exist."""

from collections.abc import Collection
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from inferrun.placeholders import InvalidPlaceholder, NoValue, Placeholder, Values, parse_template

ROME = ZoneInfo("Europe/Rome")
MIDNIGHT = datetime(2026, 3, 29, tzinfo=ROME)

VALUES = Values(
    run_name="iris-nightly",
    run_namespace="models",
    parameters={"region": "eu", "a.b-c": "x"},
    interval=(MIDNIGHT, MIDNIGHT + timedelta(days=1)),
)


def resolved(text: str, *, values: Values = VALUES) -> str:
    return "".join(
        values.of(one) if isinstance(one, Placeholder) else one for one in parse_template(text)
    )


def fault(text: str, *, declared: Collection[str] | None = None) -> str:
    with pytest.raises(InvalidPlaceholder) as caught:
        list(parse_template(text, declared=declared))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("in/iris.jsonl", "in/iris.jsonl"),
        ("in/$(params.region)/$(params.a.b-c)", "in/eu/x"),
        ("$(params.region)$(params.region)", "eueu"),
        ("$(run.namespace)/$(run.name)", "models/iris-nightly"),
        ("$(interval.start)", "2026-03-28T23:00:00Z"),
        ("$(interval.end)", "2026-03-29T22:00:00Z"),
        ("$(interval.start:%Y-%m-%d)", "2026-03-29"),
        ("$(interval.start:%Y/%m/%d/%H)", "2026/03/29/00"),
        ("$(interval.end:%Y%m%dT%H%M%S%z)", "20260330T000000+0200"),
        ("$(interval.end:%j %G-W%V-%u %y 100%%)", "089 2026-W14-1 26 100%"),
        ("$$(params.region)", "$(params.region)"),
        ("$$$(params.region)", "$$(params.region)"),
        ("$$(a)$(params.region)$$(b", "$(a)eu$(b"),
        ("costs 5$, or $5 (five)", "costs 5$, or $5 (five)"),
    ],
)
def test_a_placeholder_stands_for_its_value(text: str, wanted: str) -> None:
    assert resolved(text) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$(Params.region)", "did you mean params.region?"),
        ("$(intervall.end:%Y)", "did you mean interval.end?"),
        ("$(run.nmae)", "did you mean run.name?"),
        ("$(name)", '"$(name)" is not known'),
        ("$()", '"$()" is not known'),
        ("$(params.)", "is not known"),
        ("$(params.a b)", "is not known"),
        ("a$(", "no closing parenthesis"),
        ("$(params.region:%Y)", "only a time of the interval"),
        ("$(interval.start:)", "has an empty format"),
        ("$(interval.start:%Y-%)", "allowed are %Y"),
        ("$(interval.start:%Y\n)", "odd format"),
        ("$(interval.start:%s)", "has %s in its format"),
    ],
)
def test_an_unknown_placeholder_is_answered_with_what_was_probably_meant(
    text: str, said: str
) -> None:
    assert said in fault(text)


def test_only_declared_parameters_are_known_if_there_are_any() -> None:
    text = fault("$(params.regoin)", declared={"region", "day"})
    assert text == (
        '"$(params.regoin)" is not known, did you mean params.region?; allowed are $(params.day), $(params.region), '
        "$(interval.end), $(interval.start), $(run.name), $(run.namespace), and $$( for a literal $("
    )


def test_a_run_without_a_value_names_the_field_that_lacks_it() -> None:
    bare = Values(run_name="a", run_namespace="b", parameters={}, interval=None)
    with pytest.raises(NoValue, match=r"spec\.interval"):
        resolved("$(interval.end)", values=bare)
    with pytest.raises(NoValue, match=r"spec\.parameters\.day"):
        resolved("$(params.day)", values=bare)

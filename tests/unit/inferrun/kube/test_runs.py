"""A merge patch of what differs: applied by RFC 7386, it turns one object into the other."""

import pytest

from inferrun.kube.runs import merge_patch
from tests.unit.objects import Json


def applied(target: Json, patch: Json) -> Json:
    """RFC 7386, section 2, written down once more."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            inner = result.get(key)
            result[key] = applied(inner if isinstance(inner, dict) else {}, value)
        else:
            result[key] = value
    return result


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({}, {"phase": "Pending"}),
        ({"phase": "Pending", "message": "a"}, {"phase": "Running"}),
        ({"records": {"total": 10, "completed": 5}}, {"records": {"completed": 6}}),
        ({"records": {"total": 10}}, {}),
        ({"workflow": {"id": "a", "url": "u"}}, {"workflow": {"id": "b"}}),
        ({"attempts": [{"launch": 1, "exitCode": 4}]}, {"attempts": [{"launch": 2}]}),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"d": 3}}}),
        ({"a": "text"}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": "text"}),
    ],
)
def test_the_patch_turns_one_into_the_other(before: Json, after: Json) -> None:
    assert applied(before, merge_patch(before, after)) == after


@pytest.mark.parametrize("value", [{}, {"a": 1}, {"a": {"b": [1, {"c": 2}]}}])
def test_nothing_that_differs_is_an_empty_patch(value: Json) -> None:
    assert merge_patch(value, dict(value)) == {}


def test_what_is_the_same_is_left_out() -> None:
    assert merge_patch({"a": 1, "b": {"c": 1, "d": 1}}, {"a": 1, "b": {"c": 1, "d": 2}}) == {"b": {"d": 2}}

"""Merge patches: applied according to RFC 7386, a patch converts one object to the other."""

import pytest

from inferrun.kube.runs import merge_patch
from tests.unit.objects import Json


def applied(target: Json, patch: Json) -> Json:
    """An independent implementation of RFC 7386, section 2."""
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
def test_the_patch_converts_one_object_to_the_other(before: Json, after: Json) -> None:
    assert applied(before, merge_patch(before, after)) == after


def test_equal_members_are_omitted() -> None:
    assert merge_patch({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 2}]}}) == {}
    assert merge_patch({"a": 1, "b": {"c": 1, "d": 1}}, {"a": 1, "b": {"c": 1, "d": 2}}) == {
        "b": {"d": 2}
    }

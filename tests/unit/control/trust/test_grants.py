"""What the entries of the ConfigMap `inferrun-grants` grant."""

import pytest

from control.trust.grants import is_granted, refusal

KIND = "InferenceConfig"


@pytest.mark.parametrize(
    "data",
    [
        {"InferenceConfig": "team-a"},
        {"InferenceConfig": "team-b, team-a"},
        {"InferenceConfig": "team-b\nteam-a\n"},
        {"InferenceConfig.iris": "team-a"},
        {"InferenceConfig": "team-b", "InferenceConfig.iris": "team-a,"},
    ],
)
def test_a_namespace_that_is_listed_for_all_objects_or_for_this_one_may_refer_to_it(
    data: dict[str, str],
) -> None:
    assert is_granted(data, kind=KIND, from_namespace="team-a", name="iris")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"InferenceConfig": ""},
        {"InferenceConfig": "*"},
        {"InferenceConfig": "team-*"},
        {"InferenceConfig": "team-ab my-team-a Team-A"},
        {"InferenceConfig.titanic": "team-a"},
        {"InferenceConfig.*": "team-a"},
        {"InferenceService": "team-a"},
        {"inferenceconfig": "team-a"},
        {"iris": "team-a"},
    ],
)
def test_anything_else_grants_nothing(data: dict[str, str]) -> None:
    assert not is_granted(data, kind=KIND, from_namespace="team-a", name="iris")


def test_a_name_cannot_be_read_as_another_key() -> None:
    assert not is_granted(
        {"InferenceConfig.a.b": "team-a"}, kind=KIND, from_namespace="team-a", name="a"
    )
    assert is_granted(
        {"InferenceConfig.a.b": "team-a"}, kind=KIND, from_namespace="team-a", name="a.b"
    )


def test_a_refusal_names_the_field_and_both_namespaces_and_says_what_to_do() -> None:
    text = refusal(
        kind=KIND, field="spec.configRef.namespace", from_namespace="team-a", to_namespace="models"
    )
    for words in (
        "spec.configRef.namespace",
        "'team-a'",
        "'models'",
        "'inferrun-grants'",
        "'InferenceConfig'",
    ):
        assert words in text

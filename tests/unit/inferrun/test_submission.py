"""The one JSON argument of the front door: what is taken, what is refused, and with which words."""

import pytest

from inferrun.submission import InvalidSubmission, parse_submission

REQUEST = {"namespace": "team", "configRef": "iris"}


def test_a_config_is_named_by_a_text_or_by_an_object() -> None:
    for reference in ("iris", {"name": "iris"}):
        parsed = parse_submission({"namespace": "team", "configRef": reference})
        assert parsed.run_spec() == {"configRef": {"name": "iris"}}


def test_everything_that_a_run_takes_is_taken() -> None:
    asked = {
        "configRef": {"name": "iris", "namespace": "models"},
        "parameters": {"a": "b"},
        "timeoutSeconds": 5,
        "backoffLimit": 0,
        "pendingTimeoutSeconds": 7,
    }
    assert parse_submission({"namespace": "team", **asked}).run_spec() == asked


@pytest.mark.parametrize(
    "other",
    [
        {"configRef": {"name": "iris", "namespace": "team"}},
        {"parameters": {}},
        {"parameters": None},
        {"following": {"name": "n", "uid": "u"}},
    ],
)
def test_other_words_for_the_same_request_have_the_same_hash(other: dict[str, object]) -> None:
    assert parse_submission({**REQUEST, **other}).request_hash == parse_submission(REQUEST).request_hash


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "other"},
        {"configRef": "wine"},
        {"parameters": {"a": "1"}},
        {"timeoutSeconds": 9},
        {"backoffLimit": 0},
        {"labels": {"a": "b"}},
    ],
)
def test_another_request_has_another_hash(other: dict[str, object]) -> None:
    assert parse_submission({**REQUEST, **other}).request_hash != parse_submission(REQUEST).request_hash


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({}, ["namespace: missing"]),
        ({"namespace": "Team", "configRef": "iris"}, ["namespace: ", '"Team"']),
        ({"namespace": "team"}, ["configRef: missing"]),
        ({"namespace": "team", "configRef": 5}, ["configRef: ", "5"]),
        ({"namespace": "team", "configRef": {"nam": "iris"}}, ["configRef.name: missing"]),
        ({**REQUEST, "parameters": {"n": 5}}, ["parameters.n: ", "string", "5"]),
        ({**REQUEST, "parameters": {"pod_uid": "x"}}, ["parameters: 'pod_uid' is reserved"]),
        ({**REQUEST, "timeoutSeconds": -1}, ["timeoutSeconds: ", "-1"]),
        ({**REQUEST, "backoffLimit": "many"}, ["backoffLimit: ", '"many"']),
        ({**REQUEST, "schedule": "* * * * *"}, ["schedule: not a field", "known are namespace, configRef"]),
        ({**REQUEST, "timeoutseconds": 5}, ["timeoutseconds: not a field", "did you mean timeoutSeconds?"]),
        ({**REQUEST, "labels": {"inferrun.dev/run-uid": "x"}}, ["labels: 'inferrun.dev/run-uid' is reserved"]),
        (
            {"namespace": "team", "parent": {"name": "n", "uid": "u"}, "timeoutSeconds": 5},
            ["timeoutSeconds: not beside"],
        ),
        ([REQUEST], ["one JSON object is wanted"]),
        (None, ["one JSON object is wanted", "null"]),
    ],
)
def test_a_wrong_argument_is_refused_by_its_fields_name(argument: object, words: list[str]) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        parse_submission(argument)
    for word in words:
        assert word in str(refused.value)


def test_a_schedule_asks_for_its_parent_alone() -> None:
    parsed = parse_submission({"namespace": "team", "parent": {"name": "nightly", "uid": "u"}})
    assert parsed.parent is not None
    assert parsed.parent.name == "nightly"


def test_a_refusal_is_short_however_much_is_wrong() -> None:
    with pytest.raises(InvalidSubmission) as refused:
        parse_submission({**REQUEST, **{f"unknown{number}": "x" * 10_000 for number in range(1000)}})
    assert len(str(refused.value)) < 2048

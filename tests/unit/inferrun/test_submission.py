"""The argument of a submission: what is accepted, what is rejected, and the error messages."""

import pytest

from inferrun.submission import InvalidSubmission, Submission, parse_submission

REQUEST = {"namespace": "team", "configRef": "iris"}
DAY = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}


def test_a_config_is_named_by_a_string_or_an_object() -> None:
    for reference in ("iris", {"name": "iris"}):
        parsed = parse_submission({"namespace": "team", "configRef": reference})
        assert parsed.run_spec() == {"configRef": {"name": "iris"}}


def test_all_fields_of_a_run_are_accepted() -> None:
    asked = {
        "configRef": {"name": "iris", "namespace": "models"},
        "resources": {"requests": {"cpu": 2}, "limits": {"memory": "1Gi"}},
        "parameters": {"a": "b"},
        "interval": {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z", "timeZone": "Europe/Rome"},
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
def test_equivalent_requests_have_the_same_hash(other: dict[str, object]) -> None:
    assert parse_submission({**REQUEST, **other}).request_hash == parse_submission(REQUEST).request_hash


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "other"},
        {"configRef": "wine"},
        {"parameters": {"a": "1"}},
        {"interval": DAY},
        {"timeoutSeconds": 9},
        {"backoffLimit": 0},
        {"labels": {"a": "b"}},
    ],
)
def test_different_requests_have_different_hashes(other: dict[str, object]) -> None:
    assert parse_submission({**REQUEST, **other}).request_hash != parse_submission(REQUEST).request_hash


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({}, ["namespace: missing"]),
        ({"namespace": "Team", "configRef": "iris"}, ["namespace: ", '"Team"']),
        ({"namespace": "team"}, ["configRef: missing"]),
        ({"namespace": "team", "configRef": 5}, ["configRef: ", "5"]),
        ({"namespace": "team", "configRef": {"nam": "iris"}}, ["configRef: unknown field 'nam'"]),
        ({**REQUEST, "parameters": {"n": 5}}, ["parameters.n: ", "string", "5"]),
        ({**REQUEST, "parameters": {"pod_uid": "x"}}, ["parameters: 'pod_uid' is reserved"]),
        ({**REQUEST, "timeoutSeconds": -1}, ["timeoutSeconds: ", "-1"]),
        ({**REQUEST, "backoffLimit": "many"}, ["backoffLimit: ", '"many"']),
        ({**REQUEST, "configRef": {"name": "iris", "nam": 1}}, ["configRef: unknown field 'nam'", "name, namespace"]),
        ({**REQUEST, "interval": {**DAY, "end": DAY["start"]}}, ["interval.end", "must be after interval.start"]),
        ({**REQUEST, "interval": {**DAY, "stop": 1}}, ["interval: unknown field 'stop'", "start, end, timeZone"]),
        ({**REQUEST, "interval": {"start": DAY["start"]}}, ["interval.end: missing"]),
        ({**REQUEST, "interval": {**DAY, "start": 1700000000}}, ["interval.start: must be a time"]),
        ({**REQUEST, "interval": {**DAY, "start": "1700000000"}}, ["interval.start: must be a time"]),
        ({**REQUEST, "interval": {**DAY, "start": "2026-11-21"}}, ["interval.start: must be a time"]),
        ({**REQUEST, "interval": {**DAY, "timeZone": "Rome"}}, ["interval.timeZone", "Europe/Rome"]),
        ({**REQUEST, "interval": "2026-11-21"}, ["interval: "]),
        ({**REQUEST, "dryRun": "yes"}, ["dryRun: Input should be a valid boolean", '"yes"']),
        ({**REQUEST, "schedule": "* * * * *"}, ["schedule: unknown field", "allowed fields: namespace, configRef"]),
        ({**REQUEST, "timeoutseconds": 5}, ["timeoutseconds: unknown field", "did you mean timeoutSeconds?"]),
        ({**REQUEST, "labels": {"inferrun.dev/run-uid": "x"}}, ["labels: 'inferrun.dev/run-uid' is reserved"]),
        (
            {"namespace": "team", "parent": {"name": "n", "uid": "u"}, "timeoutSeconds": 5},
            ["timeoutSeconds: not allowed with parent"],
        ),
        ([REQUEST], ["must be a JSON object"]),
        (None, ["must be a JSON object", "null"]),
    ],
)
def test_an_invalid_argument_is_rejected_with_the_name_of_the_field(argument: object, words: list[str]) -> None:
    with pytest.raises(InvalidSubmission) as rejection:
        parse_submission(argument)
    for word in words:
        assert word in str(rejection.value)


def test_an_error_message_is_short_even_with_many_problems() -> None:
    with pytest.raises(InvalidSubmission) as rejection:
        parse_submission({**REQUEST, **{f"unknown{number}": "x" * 10_000 for number in range(1000)}})
    assert len(str(rejection.value)) < 2048


@pytest.mark.parametrize(
    "resources",
    [{"limit": {"cpu": 1}}, {"limits": 5}, {"limits": {"cpu": True}}, {"limits": {"cpu": 10**400}}],
    ids=str,
)
def test_resources_of_another_form_are_refused(resources: object) -> None:
    with pytest.raises(InvalidSubmission, match=r"^resources"):
        parse_submission({**REQUEST, "resources": resources})


INTEGERS = ("timeoutSeconds", "backoffLimit", "pendingTimeoutSeconds", "canaryRecords", "shards")
NUMBERS: tuple[object, ...] = (float("nan"), float("inf"), -float("inf"), 1e300, 10**400, -1, 1.5)


@pytest.mark.parametrize("field", [*INTEGERS, "errorThreshold", "dryRun"])
def test_no_value_of_another_type_is_accepted(field: str) -> None:
    texts: tuple[object, ...] = ("yes", "NaN", "1e400", " 5 ", "\u0663", "", [], {}, [1], {"a": 1})
    others: tuple[object, ...] = {
        "errorThreshold": (True, False),
        "dryRun": ("true", "1", 1, 0, 1.0),
    }.get(field, (True, False, "1", "5%"))
    for value in (*texts, *others, *NUMBERS):
        with pytest.raises(InvalidSubmission) as rejection:
            parse_submission({**REQUEST, field: value})
        assert str(rejection.value).startswith(field), (value, str(rejection.value))
        assert len(str(rejection.value)) < 300


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, value) for field in INTEGERS for value in (1, 1.0, None)),
        *(("errorThreshold", value) for value in (0, 5.0, "5", "0.1%", None)),
        *(("dryRun", value) for value in (True, False, None)),
    ],
)
def test_what_the_schema_of_a_run_accepts_is_accepted(field: str, value: object) -> None:
    parse_submission({**REQUEST, field: value})


def test_a_program_cannot_make_a_submission_with_a_text_for_a_number() -> None:
    with pytest.raises(ValueError, match="must be an integer"):
        Submission.model_validate({**REQUEST, "shards": "2"})

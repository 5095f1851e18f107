"""The argument of a submission: what is accepted, what is rejected, and the error messages."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from inferrun.resources import Interval
from inferrun.resources.interval import WHOLE_SECONDS
from inferrun.submission import INTERNAL_FIELDS, InvalidSubmission, Submission, parse_submission

REQUEST = {"namespace": "team", "configRef": "iris"}
DAY = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}


SCHEMA = Submission.model_json_schema(by_alias=True)
NESTED = {
    "configRef": {"name": "iris"},
    "interval": DAY,
    "resources": {},
}


def optional_members() -> list[str]:
    """The members of a submission, and of its objects as `object.member`, that a program may leave
    out."""
    found = sorted(set(SCHEMA["properties"]) - {"namespace", "configRef"})
    for name in NESTED:
        [reference] = [one["$ref"] for one in SCHEMA["properties"][name]["anyOf"] if "$ref" in one]
        part = SCHEMA["$defs"][reference.rsplit("/", 1)[-1]]
        found += [
            f"{name}.{member}"
            for member in part["properties"]
            if member not in part.get("required", ())
        ]
    return found


def nulls(members: list[str]) -> dict[str, object]:
    """A request in which these members are null, as clients in Java and Go send what is not set."""
    asked: dict[str, object] = dict(REQUEST)
    for name in members:
        outer, _, inner = name.partition(".")
        before = asked.get(outer)
        known = before if isinstance(before, dict) else NESTED.get(outer, {})
        asked[outer] = {**known, inner: None} if inner else None
    return asked


@pytest.mark.parametrize(
    "members", [*([name] for name in optional_members()), optional_members()], ids=",".join
)
def test_a_member_that_may_be_left_out_may_be_null(members: list[str]) -> None:
    asked = parse_submission(nulls(members))
    without = {key: value for key, value in nulls(members).items() if value is not None}
    for name in NESTED:
        if isinstance(part := without.get(name), dict):
            without[name] = {key: value for key, value in part.items() if value is not None}
    assert asked.request_hash == parse_submission(without).request_hash


def test_what_may_be_null_is_found_in_the_schema() -> None:
    found = optional_members()
    assert {
        "labels",
        "parameters",
        "configRef.namespace",
        "interval.timeZone",
        "resources.limits",
    } <= set(found)
    assert set(INTERNAL_FIELDS) <= set(found)


@pytest.mark.parametrize("zeros", [".0", ".000", ".0000000", ".000000000"])
@pytest.mark.parametrize("offset", ["Z", "+00:00"])
def test_a_fraction_of_zeros_is_none(zeros: str, offset: str) -> None:
    day = {key: text.replace("Z", f"{zeros}{offset}") for key, text in DAY.items()}
    assert parse_submission({**REQUEST, "interval": day}).request_hash == (
        parse_submission({**REQUEST, "interval": DAY}).request_hash
    )


@pytest.mark.parametrize(
    "start", ["2026-11-21T00:00:00.001Z", "2026-11-21T00:00:00.000000001+01:00"]
)
def test_another_fraction_is_refused_for_what_it_is(start: str) -> None:
    with pytest.raises(InvalidSubmission, match=f"interval.start: {WHOLE_SECONDS}"):
        parse_submission({**REQUEST, "interval": {**DAY, "start": start}})


def test_so_is_a_fraction_of_a_datetime() -> None:
    end = datetime(2026, 11, 22, microsecond=1, tzinfo=UTC)
    with pytest.raises(ValueError, match=WHOLE_SECONDS):
        Interval(start=end.replace(microsecond=0, day=21), end=end)


ARGUMENTS = json.loads(
    (Path(__file__).parents[3] / "campaigns" / "interop" / "clients" / "arguments.json").read_text()
)


@pytest.mark.parametrize("language", ARGUMENTS)
def test_what_temporals_clients_send_is_understood(language: str) -> None:
    """As `campaigns/interop/test_clients.py` has recorded it: TypeScript 1.24, Java 1.38, Go
    1.50."""
    sent = ARGUMENTS[language]
    assert (
        parse_submission(sent["nulls"]).request_hash == parse_submission(sent["plain"]).request_hash
    )
    dates = parse_submission(sent["dates"]).interval
    assert dates is not None
    assert str(dates) == "2026-11-21T00:00:00Z/2026-11-22T00:00:00Z"
    with pytest.raises(InvalidSubmission, match=WHOLE_SECONDS):
        parse_submission(sent["fraction"])


def test_a_config_is_named_by_a_string_or_an_object() -> None:
    for reference in ("iris", {"name": "iris"}):
        parsed = parse_submission({"namespace": "team", "configRef": reference})
        assert parsed.run_spec() == {"configRef": {"name": "iris"}}


def test_all_fields_of_a_run_are_accepted() -> None:
    asked = {
        "configRef": {"name": "iris", "namespace": "models"},
        "resources": {"requests": {"cpu": 2}, "limits": {"memory": "1Gi"}},
        "parameters": {"a": "b"},
        "interval": {
            "start": "2026-11-21T00:00:00Z",
            "end": "2026-11-22T00:00:00Z",
            "timeZone": "Europe/Rome",
        },
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
    assert (
        parse_submission({**REQUEST, **other}).request_hash
        == parse_submission(REQUEST).request_hash
    )


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
    assert (
        parse_submission({**REQUEST, **other}).request_hash
        != parse_submission(REQUEST).request_hash
    )


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
        (
            {**REQUEST, "configRef": {"name": "iris", "nam": 1}},
            ["configRef: unknown field 'nam'", "name, namespace"],
        ),
        (
            {**REQUEST, "interval": {**DAY, "end": DAY["start"]}},
            ["interval.end", "must be after interval.start"],
        ),
        (
            {**REQUEST, "interval": {**DAY, "stop": 1}},
            ["interval: unknown field 'stop'", "start, end, timeZone"],
        ),
        ({**REQUEST, "interval": {"start": DAY["start"]}}, ["interval.end: missing"]),
        ({**REQUEST, "interval": {**DAY, "start": 1700000000}}, ["interval.start: must be a time"]),
        (
            {**REQUEST, "interval": {**DAY, "start": "1700000000"}},
            ["interval.start: must be a time"],
        ),
        (
            {**REQUEST, "interval": {**DAY, "start": "2026-11-21"}},
            ["interval.start: must be a time"],
        ),
        (
            {**REQUEST, "interval": {**DAY, "timeZone": "Rome"}},
            ["interval.timeZone", "Europe/Rome"],
        ),
        ({**REQUEST, "interval": "2026-11-21"}, ["interval: "]),
        ({**REQUEST, "dryRun": "yes"}, ["dryRun: Input should be a valid boolean", '"yes"']),
        (
            {**REQUEST, "schedule": "* * * * *"},
            ["schedule: unknown field", "allowed fields: namespace, configRef"],
        ),
        (
            {**REQUEST, "timeoutseconds": 5},
            ["timeoutseconds: unknown field", "did you mean timeoutSeconds?"],
        ),
        (
            {**REQUEST, "labels": {"inferrun.dev/run-uid": "x"}},
            ["labels: 'inferrun.dev/run-uid' is reserved"],
        ),
        (
            {"namespace": "team", "parent": {"name": "n", "uid": "u"}, "timeoutSeconds": 5},
            ["timeoutSeconds: not allowed with parent"],
        ),
        ([REQUEST], ["must be a JSON object"]),
        (None, ["must be a JSON object", "null"]),
    ],
)
def test_an_invalid_argument_is_rejected_with_the_name_of_the_field(
    argument: object, words: list[str]
) -> None:
    with pytest.raises(InvalidSubmission) as rejection:
        parse_submission(argument)
    for word in words:
        assert word in str(rejection.value)


def test_an_error_message_is_short_even_with_many_problems() -> None:
    with pytest.raises(InvalidSubmission) as rejection:
        parse_submission(
            {**REQUEST, **{f"unknown{number}": "x" * 10_000 for number in range(1000)}}
        )
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

"""The published schemas agree with what the front door accepts and returns. That they are current
is checked with the pages."""

import json
from collections.abc import Iterator

import pytest

from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import Progress, RunResult
from inferrun.runner_report import Output, Pace, RecordCounts, TokenUsage
from inferrun.submission import InvalidSubmission, parse_submission
from inferrun.temporal.plugin import BoundedJsonConverter
from tests.published_schemas import violations
from tests.unit.docs.pages import FRONT_DOOR, blocks
from tools.reference.schemas import schemas

REQUEST = {"namespace": "team", "configRef": "iris"}
DAY = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}
COUNTED = {
    "records": RecordCounts(total=9, completed=9),
    "usage": TokenUsage(prompt_tokens=4, completion_tokens=1, total_tokens=5),
}
OUTPUT = Output(location="out", manifest="out/manifest.json", sha256="ab" * 32)
ENDED = {
    "namespace": "team",
    "name": "iris",
    "uid": "u-1",
    "phase": Phase.SUCCEEDED,
    "reason": Reason.SUCCEEDED,
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "configRef": {"name": "iris", "namespace": "models"},
            "parameters": {"day": "monday"},
            "labels": {"a": "b"},
        },
        {"interval": {**DAY, "timeZone": "Europe/Rome"}, "retryOf": "earlier", "shards": 4},
        {
            "timeoutSeconds": 5,
            "backoffLimit": 0,
            "pendingTimeoutSeconds": None,
            "canaryRecords": 1,
            "dryRun": True,
        },
        {"errorThreshold": "5%"},
        {"errorThreshold": 5},
    ],
)
def test_what_the_schema_of_a_submission_accepts_is_accepted(more: dict[str, object]) -> None:
    assert violations("submission", {**REQUEST, **more}) == []
    parse_submission({**REQUEST, **more})


@pytest.mark.parametrize(
    "argument",
    [
        {"configRef": "iris"},
        {"namespace": "team"},
        {**REQUEST, "namespace": "Team"},
        {**REQUEST, "configRef": None},
        {**REQUEST, "configRef": {"name": "iris", "nam": 1}},
        {**REQUEST, "interval": {**DAY, "stop": 1}},
        {**REQUEST, "interval": {"start": DAY["start"]}},
        {**REQUEST, "parameters": {"n": 5}},
        {**REQUEST, "timeoutSeconds": -1},
        {**REQUEST, "timeoutSeconds": "5"},
        {**REQUEST, "dryRun": "yes"},
        {**REQUEST, "schedule": "* * * * *"},
        [REQUEST],
        None,
    ],
)
def test_what_the_schema_of_a_submission_rejects_is_rejected(argument: object) -> None:
    assert violations("submission", argument)
    with pytest.raises(InvalidSubmission):
        parse_submission(argument)


@pytest.mark.parametrize("internal", ["parent", "following"])
def test_the_schema_of_a_submission_has_only_what_programs_set(internal: str) -> None:
    assert violations("submission", {**REQUEST, internal: {"name": "n", "uid": "u"}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run-result", RunResult.model_validate(ENDED)),
        (
            "run-result",
            RunResult.model_validate(
                {**ENDED, **COUNTED, "output": OUTPUT, "delivery": "ExactlyOnce"}
            ),
        ),
        ("progress", Progress()),
        (
            "progress",
            Progress.model_validate(
                {**ENDED, **COUNTED, "pace": Pace(records_per_second=3, seconds_left=1)}
            ),
        ),
        ("edited-run", RunRef(namespace="team", name="iris", uid="u-1")),
    ],
)
def test_what_the_front_door_returns_is_valid(name: str, value: object) -> None:
    payload = BoundedJsonConverter().to_payload(value)
    assert payload is not None
    assert violations(name, json.loads(payload.data)) == []


def test_the_documented_examples_are_valid() -> None:
    examples = [json.loads(text) for text in blocks(FRONT_DOOR, "json")]
    for name, example in zip(("submission", "run-result", "progress"), examples, strict=True):
        assert violations(name, example) == []


def test_every_field_has_a_description() -> None:
    def undescribed(schema: object, path: str) -> Iterator[str]:
        if isinstance(schema, dict):
            for name, value in schema.get("properties", {}).items():
                if "description" not in value and "$ref" not in value:
                    yield f"{path}.{name}"
            for name, part in schema.get("$defs", {}).items():
                yield from undescribed(part, f"{path}#{name}")

    assert [one for name, schema in schemas().items() for one in undescribed(schema, name)] == []

"""Problems that the CRD's schema cannot detect: each names the field, its value and what is allowed."""

from typing import Any

import pytest
from pydantic import ValidationError

from inferrun.resources import InferenceConfig, parse_config, parse_run
from inferrun.resources.validation import Problem, config_problems, describe, parse_problems, run_problems

KRATEO = {"krateo": {"api": {"path": "/compute/in", "verb": "POST", "endpointRef": {"name": "handler"}}}}
FILE = {"file": {"claimName": "data", "path": "in/iris.jsonl"}}
MODEL = {"modelUrl": "iris.models/v2/models/iris/infer", "modelVersion": "v2"}


def config(**spec: object) -> InferenceConfig:
    storage = {"input": KRATEO, "output": FILE}
    return parse_config({"metadata": {"name": "iris"}, "spec": {"storage": storage, "kserve": MODEL, **spec}})


def fields(problems: tuple[Problem, ...]) -> list[str]:
    return [problem.field for problem in problems]


def test_a_typical_config_has_no_problems() -> None:
    assert config_problems(config()) == ()


def test_a_config_for_a_custom_image_may_have_any_label_and_no_model() -> None:
    custom = config(image="example.com/mine:1", kserve=None, storage={"input": {"custom": {"s3": {"any": "thing"}}}})
    assert config_problems(custom) == ()


@pytest.mark.parametrize(
    ("storage", "field", "hint"),
    [
        ({"krateo": {"api": {"endpointRef": {"name": "h"}, "pth": "/x"}}}, "krateo.api.pth", "did you mean path?"),
        ({"krateo": {"api": {"endpointref": {"name": "h"}}}}, "krateo.api.endpointref", "did you mean endpointRef?"),
        ({"krateo": {"apis": {}}}, "krateo.apis", "did you mean api?"),
        ({"krateo": {"api": {"endpointRef": {"nam": "h"}}}}, "krateo.api.endpointRef.nam", "did you mean name?"),
        ({"file": {"claim": "data", "path": "x"}}, "file.claim", "did you mean claimName?"),
        ({"file": {"claimName": "data", "path": "x", "fmt": "csv"}}, "file.fmt", "allowed are claimName, path, format"),
    ],
)
def test_an_unknown_key_of_a_supported_storage_gets_a_suggestion(
    storage: dict[str, Any],  # Any: free-form on purpose
    field: str,
    hint: str,
) -> None:
    problems = config_problems(config(storage={"input": storage, "output": FILE}))
    assert problems[0].field == f"spec.storage.input.{field}"
    assert hint in problems[0].allowed


@pytest.mark.parametrize(
    ("storage", "field", "allowed"),
    [
        ({"file": {"path": "x"}}, "file.claimName", "required"),
        ({"file": {"claimName": "data", "path": "../x"}}, "file.path", 'without ".."'),
        ({"file": {"claimName": "data", "path": "/x"}}, "file.path", "relative"),
        ({"file": "data"}, "file", "must be an object"),
        ({"krateo": {"api": {"endpointRef": {"name": "h"}, "verb": "FETCH"}}}, "krateo.api.verb", "GET, POST"),
        (
            {"krateo": {"api": {"endpointRef": {"name": "h"}, "headers": "a: b"}}},
            "krateo.api.headers",
            "must be a list",
        ),
        ({"krateo": {"api": {"path": "/x"}}}, "krateo.api.endpointRef", "required"),
        ({"gcs": {"bucket": "b"}}, "gcs", "file, krateo, s3"),
        ({"s3": {"bucket": "data", "path": "out", "key": "x"}}, "s3.key", "unknown key; allowed are bucket, path"),
        ({"s3": {"bucket": "data"}}, "s3.path", "required"),
        ({"s3": {"bucket": "data", "path": "../x"}}, "s3.path", "relative"),
        ({"files": {"path": "b"}}, "files", "did you mean file?"),
        ({}, "", "one of the labels file, krateo, s3"),
        ({**FILE, **KRATEO}, "", "only one label"),
    ],
)
def test_an_invalid_storage_is_reported(
    storage: dict[str, Any],  # Any: free-form on purpose
    field: str,
    allowed: str,
) -> None:
    problems = config_problems(config(storage={"input": FILE, "output": storage}))
    assert fields(problems) == [f"spec.storage.output.{field}".rstrip(".")]
    assert allowed in problems[0].allowed


def test_a_label_of_a_custom_image_must_hold_an_object() -> None:
    problems = config_problems(config(image="mine:1", storage={"output": {"custom": "s3://bucket"}}))
    assert describe(problems) == 'spec.storage.output.custom is "s3://bucket"; must be an object'


def test_two_placements_with_different_values_are_reported_with_both_values() -> None:
    problems = config_problems(config(modelUrl="http://other", modelVersion="v2"))
    assert describe(problems) == (
        'spec.modelUrl is "http://other"; but spec.kserve.modelUrl is "iris.models/v2/models/iris/infer"; '
        "set only one of them, or both to the same value"
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"kserve": {"modelUrl": "iris", "modelVersion": "v1"}}, "spec.kserve.modelVersion"),
        ({"kserve": None}, "spec.kserve.modelUrl"),
        ({"kserve": {"modelUrl": "ftp://iris/x"}}, "spec.kserve.modelUrl"),
        ({"kserve": {"modelUrl": "http://"}}, "spec.kserve.modelUrl"),
        ({"kserve": {"modelUrl": "iris:99999/x"}}, "spec.kserve.modelUrl"),
        ({"image": "mine:1", "kserve": {"modelVersion": "v3"}}, "spec.kserve.modelVersion"),
        ({"resources": {"limits": {"cpus": "1"}}}, "spec.resources.limits.cpus"),
        ({"storage": {"input": {"x": {"y": "z" * 300_000}}}, "image": "mine:1"}, "spec.storage"),
    ],
)
def test_an_invalid_value_is_reported_once(spec: dict[str, object], problem: str) -> None:
    assert fields(config_problems(config(**spec))) == [problem]


@pytest.mark.parametrize(
    ("request_", "limit", "fits"),
    [
        ("500m", 1, True),
        ("1500m", "1.5", True),
        ("1501m", "1.5", False),
        ("1Gi", "1G", False),
        ("1G", "1Gi", True),
        ("1e3", "1k", True),
        (2, 1, False),
    ],
)
def test_a_request_must_not_exceed_its_limit(request_: int | str, limit: int | str, *, fits: bool) -> None:
    problems = config_problems(config(resources={"requests": {"cpu": request_}, "limits": {"cpu": limit}}))
    assert fields(problems) == ([] if fits else ["spec.resources.requests.cpu"])


def test_a_custom_image_may_use_any_known_protocol() -> None:
    assert config_problems(config(image="mine:1", kserve={"modelVersion": "v1"})) == ()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedule": "0 0 30 2 *"}, "spec.schedule"),
        ({"schedule": "12345"}, "spec.schedule"),
        ({"schedule": "@daily", "timeZone": "Europe/Nowhere"}, "spec.timeZone"),
        ({"parameters": {"job_uid": "x"}}, "spec.parameters.job_uid"),
        ({"parameters": {str(number): "x" * 65536 for number in range(5)}}, "spec.parameters"),
    ],
)
def test_an_invalid_run_is_reported(spec: dict[str, object], field: str) -> None:
    run = parse_run({"metadata": {"name": "a"}, "spec": {"configRef": {"name": "iris"}, **spec}})
    assert fields(run_problems(run)) == [field]


def test_a_typical_run_and_a_typical_schedule_have_no_problems() -> None:
    for extra in ({}, {"schedule": "0 9 * * MON", "timeZone": "Europe/Rome"}):
        run = parse_run({"metadata": {"name": "a"}, "spec": {"configRef": {"name": "iris"}, **extra}})
        assert run_problems(run) == ()


def test_a_resource_that_cannot_be_parsed_is_reported_with_field_and_value() -> None:
    with pytest.raises(ValidationError) as error:
        parse_run({"metadata": {"name": "a"}, "spec": {"configRef": {"name": "iris"}, "timeoutSeconds": -5}})
    assert describe(parse_problems(error.value)) == (
        'spec.timeoutSeconds is "-5"; allowed: input should be greater than or equal to 0'
    )


def test_a_missing_field_is_reported_as_not_set() -> None:
    with pytest.raises(ValidationError) as error:
        parse_run({"metadata": {"name": "a"}, "spec": {}})
    assert describe(parse_problems(error.value)).startswith("spec.configRef is not set; ")


def test_a_long_value_is_truncated() -> None:
    problems = config_problems(config(kserve={"modelUrl": "ftp://" + "x" * 2000}))
    assert len(str(problems[0])) < 400


def test_a_custom_image_may_use_the_label_s3_in_its_own_way() -> None:
    custom = config(image="example.com/mine:1", kserve=None, storage={"input": {"s3": {"any": ["thing"]}}})
    assert config_problems(custom) == ()


def test_the_default_runner_supports_the_protocol_openai() -> None:
    assert config_problems(config(kserve={"modelUrl": "http://llm:8000", "protocolVersion": "openai"})) == ()


def test_an_unknown_protocol_is_reported_unless_an_image_may_provide_it() -> None:
    kserve = {"modelUrl": "http://llm:8000", "protocolVersion": "opanai"}
    (problem,) = config_problems(config(kserve=kserve))
    assert problem.field == "spec.kserve.protocolVersion"
    assert "v2 and openai, did you mean openai?" in problem.allowed
    assert config_problems(config(image="example.com/mine:1", kserve=kserve)) == ()

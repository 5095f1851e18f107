"""The doctor's tables agree with what they are about: the chart's roles, the generated definitions, the queues' names."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.crds.definitions import inference_config, inference_run
from inferrun.cli.definitions import MODELS, missing_fields
from inferrun.cli.doctor import SETTINGS
from inferrun.cli.permissions import SHIM, WORKER, Right
from inferrun.cli.programs import COMPONENT_LABEL
from workflows.activity_options import follower_queue

CHART = Path(__file__).resolve().parents[4] / "deploy" / "helm" / "inferrun"


def rules_of(component: str) -> list[dict[str, Any]]:  # Any: YAML
    """The rules that the chart gives to a program."""
    text = (CHART / "templates" / "_rules.tpl").read_text()
    body = text.split(f'define "inferrun.rules.{component}" -}}}}', 1)[1].split("{{- end -}}", 1)[0]
    rules: list[dict[str, Any]] = yaml.safe_load(body)
    return rules


@pytest.mark.parametrize(("component", "rights"), [("shim", SHIM), ("worker", WORKER)])
def test_the_chart_gives_every_right_that_the_doctor_asks_for(component: str, rights: tuple[Right, ...]) -> None:
    given = {
        (verb, group, resource)
        for rule in rules_of(component)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given
    assert [str(right) for right in rights if (right.verb, right.group, right.resource) not in given] == []


def test_the_generated_definitions_have_every_field_of_the_models() -> None:
    for definition in (inference_config(), inference_run()):
        name = definition["metadata"]["name"]
        root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert missing_fields(name, root) == []
        assert len(missing_fields(name, {})) > 20


def test_the_two_definitions_are_those_that_are_generated() -> None:
    assert set(MODELS) == {inference_config()["metadata"]["name"], inference_run()["metadata"]["name"]}


def test_the_chart_uses_the_names_that_the_doctor_looks_for() -> None:
    assert f"name: {SETTINGS}\n" in (CHART / "templates" / "config.yaml").read_text()
    assert COMPONENT_LABEL in (CHART / "templates" / "_program.tpl").read_text()


def test_the_followers_queue_is_named_as_the_worker_names_it() -> None:
    assert follower_queue("batch") == "batch-follow"

"""The tables of doctor agree with the chart's roles, the generated definitions and the names of the
task queues."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.crds.definitions import inference_config, inference_run
from inferrun.cli.definitions import MODELS, missing_fields
from inferrun.cli.doctor import SETTINGS
from inferrun.cli.permissions import SHIM, WORKER, Permission
from inferrun.cli.programs import COMPONENT_LABEL

CHART = Path(__file__).resolve().parents[4] / "deploy" / "helm" / "inferrun"


def rules_of(component: str) -> list[dict[str, Any]]:  # Any: YAML
    text = (CHART / "templates" / "_rules.tpl").read_text()
    body = text.split(f'define "inferrun.rules.{component}" -}}}}', 1)[1].split("{{- end -}}", 1)[0]
    rules: list[dict[str, Any]] = yaml.safe_load(body)
    return rules


@pytest.mark.parametrize(("component", "permissions"), [("shim", SHIM), ("worker", WORKER)])
def test_the_chart_grants_every_permission_that_doctor_checks(
    component: str, permissions: tuple[Permission, ...]
) -> None:
    given = {
        (verb, group, resource)
        for rule in rules_of(component)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given
    assert [
        str(right)
        for right in permissions
        if (right.verb, right.group, right.resource) not in given
    ] == []


def test_the_generated_definitions_have_every_field_of_the_models() -> None:
    for definition in (inference_config(), inference_run()):
        name = definition["metadata"]["name"]
        root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert missing_fields(name, root) == []
        assert len(missing_fields(name, {})) > 20


def test_doctor_checks_the_generated_definitions() -> None:
    assert set(MODELS) == {
        inference_config()["metadata"]["name"],
        inference_run()["metadata"]["name"],
    }


def test_the_chart_uses_the_names_that_doctor_expects() -> None:
    assert f"name: {SETTINGS}\n" in (CHART / "templates" / "config.yaml").read_text()
    assert COMPONENT_LABEL in (CHART / "templates" / "_program.tpl").read_text()

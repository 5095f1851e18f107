"""The resources under examples/ are valid and refer to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferrun.resources.config import parse_config
from inferrun.resources.run import parse_run
from inferrun.resources.validation import config_problems

EXAMPLES = Path(__file__).parents[3] / "examples"
MANIFESTS = sorted(EXAMPLES.glob("*.yaml"))

Object = dict[str, Any]  # Any: a resource


def objects(*, kind: str) -> list[Object]:
    found = (thing for path in MANIFESTS for thing in yaml.safe_load_all(path.read_text()))
    return [thing for thing in found if thing["kind"] == kind]


def pod_specs() -> list[tuple[str, Object]]:
    pods = [(pod["metadata"]["name"], pod["spec"]) for pod in objects(kind="Pod")]
    return pods + [
        (one["metadata"]["name"], one["spec"]["template"]["spec"])
        for one in objects(kind="Deployment")
    ]


def test_every_config_is_used_by_a_run_and_every_run_uses_one() -> None:
    configs = {config["metadata"]["name"] for config in objects(kind="InferenceConfig")}
    runs = [parse_run(run) for run in objects(kind="InferenceRun")]
    assert {run.config_name for run in runs} == configs


def test_every_config_uses_the_service_of_the_model_server() -> None:
    (service,) = (
        one
        for one in objects(kind="Service")
        if one["metadata"]["name"] == "sklearn-iris-predictor"
    )
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    for config in map(parse_config, objects(kind="InferenceConfig")):
        assert (
            config.spec.model.model_url == f"{host}/v2/models/{config.spec.model.model_name}/infer"
        )


def test_every_model_in_a_config_is_in_the_image() -> None:
    for config in map(parse_config, objects(kind="InferenceConfig")):
        assert (
            EXAMPLES / "model-server" / str(config.spec.model.model_name) / "model-settings.json"
        ).is_file()


@pytest.mark.parametrize(("name", "spec"), pod_specs())
def test_every_pod_complies_with_pod_security_restricted(name: str, spec: Object) -> None:
    assert spec["securityContext"]["runAsNonRoot"], name
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_no_secret_is_committed() -> None:
    assert objects(kind="Secret") == []


@pytest.mark.parametrize(
    "path", sorted((EXAMPLES / "kserve").glob("*.yaml")), ids=lambda path: path.stem
)
def test_an_example_for_kserve_refers_to_its_own_object(path: Path) -> None:
    service, config, run = yaml.safe_load_all(path.read_text())
    parsed = parse_config(config)
    reference = parsed.spec.model.service_ref
    assert reference is not None
    assert (reference.kind, reference.name) == (service["kind"], service["metadata"]["name"])
    assert config_problems(parsed) == ()
    assert parse_run(run).config_name == config["metadata"]["name"]
    assert (
        service["metadata"]["namespace"]
        == config["metadata"]["namespace"]
        == run["metadata"]["namespace"]
    )


@pytest.mark.parametrize("name", ["llm-batch", "tickets", "images"])
def test_a_config_uses_servers_and_claims_of_the_examples(name: str) -> None:
    manifest: Object = yaml.safe_load((EXAMPLES / name / "config.yaml").read_text())
    run = parse_run(yaml.safe_load((EXAMPLES / name / "run.yaml").read_text()))
    assert run.config_name == manifest["metadata"]["name"]
    ports = {
        f"{one['metadata']['name']}.{one['metadata']['namespace']}:{port['port']}"
        for one in objects(kind="Service")
        for port in one["spec"]["ports"]
    }
    claims = {one["metadata"]["name"] for one in objects(kind="PersistentVolumeClaim")}
    for label, storage in (
        pair for side in manifest["spec"]["storage"].values() for pair in side.items()
    ):
        used, known = (
            (storage["endpoint"], ports) if label == "s3" else (storage["claimName"], claims)
        )
        assert used.removeprefix("http://") in known
    url = manifest["spec"]["kserve"]["modelUrl"].removeprefix("http://")
    assert (url if ":" in url else f"{url}:80") in ports


@pytest.mark.parametrize("name", ["tickets", "images"])
def test_typed_data_takes_ten_lines_of_spec(name: str) -> None:
    _, spec = (EXAMPLES / name / "config.yaml").read_text().split("spec:\n")
    assert len(spec.splitlines()) <= 10

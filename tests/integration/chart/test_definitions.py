"""The chart's definitions on an API server of their own: they are upgraded with the release, and
never deleted."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from campaigns.benchmarks.control_plane import control_plane
from deploy.crds.definitions import inference_config, inference_run
from tests.integration.chart.conftest import CHART, CHECKOUT, KUBERNETES, HelmFailed, Manifest

pytestmark = pytest.mark.thorough

BINARIES = Path(os.environ.get("INFERRUN_BIN", CHECKOUT / ".devcluster" / "bin"))
DEFINITIONS = (inference_config(), inference_run())
NAMES = [definition["metadata"]["name"] for definition in DEFINITIONS]
SETTINGS = ("--create-namespace", "--set", "temporal.address=temporal:7233")


@dataclass(frozen=True)
class Cluster:
    """An API server without definitions at first."""

    kubeconfig: Path
    run_helm: Callable[..., str]

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        command = [str(BINARIES / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def helm(
        self, action: str, release: str, *words: str, namespace: str = "inferrun-system"
    ) -> None:
        chart = () if action == "uninstall" else (str(CHART), *SETTINGS)
        self.run_helm(
            action,
            release,
            *chart,
            *words,
            "--kubeconfig",
            str(self.kubeconfig),
            "--namespace",
            namespace,
        )

    def apply_older_definitions(self) -> None:
        """What an earlier version might have installed: without the descriptions and the rules of
        this one."""
        for definition in DEFINITIONS:
            older: Manifest = json.loads(json.dumps(definition))
            (version,) = older["spec"]["versions"]
            version["schema"]["openAPIV3Schema"] = {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
            version.pop("selectableFields", None)
            del older["metadata"]["annotations"]
            self.kubectl(
                "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(older)
            )

    def check_definitions(self) -> None:
        """They are those of this version, and Helm keeps them."""
        self.kubectl(
            "wait",
            "--for=condition=established",
            "--timeout=30s",
            *(f"crd/{name}" for name in NAMES),
        )
        for definition in DEFINITIONS:
            stored = json.loads(
                self.kubectl("get", "crd", definition["metadata"]["name"], "-o", "json")
            )
            assert stored["spec"]["versions"] == definition["spec"]["versions"]
            assert stored["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with control_plane(tmp_path_factory.mktemp("servers"), binaries=BINARIES) as running:
        yield running.kubeconfig


@pytest.fixture
def cluster(servers: Path, helm: Callable[..., str]) -> Iterator[Cluster]:
    made = Cluster(servers, helm)
    yield made
    for namespace, release in (("inferrun-system", "inferrun"), ("other", "inferrun")):
        made.helm("uninstall", release, "--ignore-not-found", namespace=namespace)
    made.kubectl("delete", "crd", *NAMES, "--ignore-not-found")


def test_a_release_installs_and_upgrades_the_definitions_and_leaves_them_with_their_objects(
    cluster: Cluster,
) -> None:
    cluster.helm("install", "inferrun")
    cluster.check_definitions()
    config: Manifest = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": {"name": "kept"},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({**config, "spec": {"storage": {}}}))
    cluster.apply_older_definitions()
    cluster.helm("upgrade", "inferrun")
    cluster.check_definitions()
    cluster.helm("upgrade", "inferrun", "--set", "crds.enabled=false")
    cluster.helm("upgrade", "inferrun")
    cluster.helm("uninstall", "inferrun")
    cluster.check_definitions()
    cluster.helm("install", "inferrun")
    assert "kept" in cluster.kubectl("get", "inferenceconfigs")


def test_definitions_that_were_applied_before_are_taken_over(cluster: Cluster) -> None:
    cluster.apply_older_definitions()
    with pytest.raises(HelmFailed, match="invalid ownership metadata"):
        cluster.helm("install", "inferrun")
    cluster.helm("upgrade", "inferrun", "--install", "--take-ownership")
    cluster.check_definitions()
    cluster.helm("upgrade", "inferrun")


def test_a_second_release_leaves_the_definitions_to_the_first(cluster: Cluster) -> None:
    cluster.helm("install", "inferrun")
    with pytest.raises(
        HelmFailed, match=r'CustomResourceDefinition .* current value is "inferrun-system"'
    ):
        cluster.helm("install", "inferrun", namespace="other")
    cluster.helm("install", "inferrun", "--set", "crds.enabled=false", namespace="other")
    cluster.helm("uninstall", "inferrun", namespace="other")
    cluster.check_definitions()


def test_the_rendered_chart_can_be_applied_and_applied_again(cluster: Cluster) -> None:
    rendered = cluster.run_helm(
        "template",
        "inferrun",
        str(CHART),
        *SETTINGS,
        "--kube-version",
        KUBERNETES,
        "--namespace",
        "plain",
    )
    cluster.kubectl("create", "namespace", "plain")
    for _ in range(2):
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=rendered)
    cluster.check_definitions()
    cluster.kubectl("delete", "namespace", "plain", "--wait=false")
    kinds = [item["kind"] for item in yaml.safe_load_all(rendered)]
    assert kinds.count("ValidatingAdmissionPolicy") == 4

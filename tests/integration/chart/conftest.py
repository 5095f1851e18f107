"""Helm, and an API server that validates what the chart renders."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.integration.crds.server import connected

CHECKOUT = Path(__file__).resolve().parents[3]
CHART = CHECKOUT / "deploy" / "helm" / "inferrun"
KUBERNETES = "1.34.0"

Manifest = dict[str, Any]  # Any: manifests are free-form YAML
Render = Callable[..., list[Manifest]]


class HelmFailed(Exception):
    """Helm failed; the message is its output."""


@pytest.fixture(scope="session")
def helm() -> Callable[..., str]:
    """Runs helm and returns its output. Raises HelmFailed."""
    binaries = os.environ.get("INFERRUN_BIN", str(CHECKOUT / ".devcluster" / "bin"))
    program = shutil.which("helm", path=f"{binaries}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.fail(f"no helm in {binaries} nor on the PATH; run: make cluster")

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode:
            raise HelmFailed(done.stderr + done.stdout)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def render(helm: Callable[..., str]) -> Render:
    """The manifests of a release with `name=value` settings."""

    def rendered(
        *settings: str,
        release: str = "inferrun",
        namespace: str = "inferrun-system",
        address: str = "temporal:7233",
    ) -> list[Manifest]:
        options = [f"--set={setting}" for setting in (f"temporal.address={address}", *settings)]
        text = helm(
            "template",
            release,
            str(CHART),
            "--namespace",
            namespace,
            "--kube-version",
            KUBERNETES,
            *options,
        )
        return [manifest for manifest in yaml.safe_load_all(text) if manifest]

    return rendered


@pytest.fixture(scope="session")
def client(kubeconfig: Path) -> Iterator[httpx.Client]:
    with connected(kubeconfig) as made:
        yield made

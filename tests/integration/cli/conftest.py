"""The development cluster, with a simulated installation in a separate namespace."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES
from tests.integration.cli.run_space import RunSpace
from tests.integration.cli.stage import CLUSTER_FILES, install


@pytest.fixture
def task_queue() -> str:
    return f"doctor-{token_hex(4)}"


@pytest.fixture
async def installed(api: KubeClient, task_queue: str, temporal_address: str) -> AsyncIterator[str]:
    """The namespace of a simulated installation whose Pods cannot start."""
    namespace = f"doctor-{token_hex(4)}"
    await install(
        api, namespace=namespace, task_queue=task_queue, temporal=temporal_address, replicas=1
    )
    yield namespace
    stored = await api.get(NAMESPACES, None, namespace)
    await api.delete(NAMESPACES, "", namespace, uid=stored["metadata"]["uid"])


@pytest.fixture
def stranger(kubeconfig: Path, installed: str, tmp_path: Path) -> Path:
    """A kubeconfig of a user without permissions: the service account of the simulated shim, which
    has no role."""
    kubectl = [
        str(Path(os.environ.get("INFERRUN_BIN", CLUSTER_FILES / "bin")) / "kubectl"),
        "--kubeconfig",
    ]
    copy = tmp_path / "stranger"
    copy.write_bytes(kubeconfig.read_bytes())
    made = [*kubectl, str(kubeconfig), "create", "token", "inferrun-shim", "-n", installed]
    token = subprocess.run(made, capture_output=True, text=True, check=True, timeout=60).stdout
    for words in (
        ["config", "set-credentials", "stranger", f"--token={token}"],
        ["config", "set-context", "--current", "--user=stranger"],
    ):
        subprocess.run([*kubectl, str(copy), *words], capture_output=True, check=True, timeout=60)
    return copy


@pytest.fixture
async def space(api: KubeClient, kubeconfig: Path) -> AsyncIterator[RunSpace]:
    name = f"runs-{token_hex(4)}"
    made = await api.create(
        NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield RunSpace(api, kubeconfig, name)
    await api.delete(NAMESPACES, "", name, uid=made["metadata"]["uid"])

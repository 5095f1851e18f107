"""The development cluster of this checkout, with a pretended installation in a namespace of its own for each module."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES
from tests.integration.doctor.stage import HANDOVER, install


@pytest.fixture
def task_queue() -> str:
    """A queue that nobody else polls."""
    return f"doctor-{token_hex(4)}"


@pytest.fixture
async def installed(api: KubeClient, task_queue: str, temporal_address: str) -> AsyncIterator[str]:
    """The namespace of a pretended installation whose Pods cannot start."""
    namespace = f"doctor-{token_hex(4)}"
    await install(api, namespace=namespace, task_queue=task_queue, temporal=temporal_address, replicas=1)
    yield namespace
    stored = await api.get(NAMESPACES, None, namespace)
    await api.delete(NAMESPACES, "", namespace, uid=stored["metadata"]["uid"])


@pytest.fixture
def stranger(kubeconfig: Path, installed: str, tmp_path: Path) -> Path:
    """A kubeconfig of somebody who may do nothing: the shim's account, which has no role here."""
    kubectl = [str(Path(os.environ.get("INFERRUN_BIN", HANDOVER / "bin")) / "kubectl"), "--kubeconfig"]
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

"""Installs the product from its chart once, and provides each test with its own namespace."""

import fcntl
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.stage import ACTOR_IMAGE, ROOT, SYSTEM, Space, Stage, attached, config


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Stage:
    """The cluster with the product and the test image, which the first of several test processes
    installs."""
    found = attached()
    if worker_id == "master":
        _prepare(found)
        return found
    shared = tmp_path_factory.getbasetemp().parent
    with (shared / "installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = shared / "installed"
        if not done.exists():
            _prepare(found)
            done.touch()
    return found


def _prepare(stage: Stage) -> None:
    command = ["python3", "-m", "tools.devcluster", "image", ACTOR_IMAGE, "tests/e2e/images/actor"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    install(stage)


def install(stage: Stage, *settings: str) -> None:
    """Install or upgrade the chart and restart its programs, so that they run the latest images."""
    values = [
        f"temporal.address={stage.temporal_address}",
        f"temporal.uiUrl={stage.ui_url}",
        *settings,
    ]
    sets = [word for value in values for word in ("--set", value)]
    chart = str(ROOT / "deploy" / "helm" / "inferrun")
    # The tests of the API server apply the definitions, too.
    stage.helm(
        "upgrade", "--install", "inferrun", chart, "--create-namespace", "--take-ownership", *sets
    )
    for name in ("inferrun-shim", "inferrun-worker"):
        stage.kubectl("-n", SYSTEM, "rollout", "restart", f"deployment/{name}")
    for name in ("inferrun-shim", "inferrun-worker"):
        stage.kubectl(
            "-n", SYSTEM, "rollout", "status", f"deployment/{name}", "--timeout=120s", seconds=130
        )


@pytest.fixture
def space(stage: Stage) -> Iterator[Space]:
    """A namespace with the config `actor`, which is deleted after the test."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    stage.kubectl("create", "namespace", name)
    space = Space(stage, name)
    try:
        space.apply(config("actor", backoffLimit=0))
        yield space
    finally:
        space.kubectl("delete", "inferenceruns", "--all", "--wait=false", check=False)
        stage.kubectl("delete", "namespace", name, "--wait=false", check=False)

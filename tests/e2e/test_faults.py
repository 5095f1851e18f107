"""Runs survive the failure of components of the product and of the cluster."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import install
from tests.e2e.stage import SYSTEM, Space, Stage, kill_9, run, until

pytestmark = pytest.mark.alone

MARGIN = 5


def _pods_of(stage: Stage, component: str) -> list[str]:
    selector = f"app.kubernetes.io/component={component}"
    words = [
        "-n",
        SYSTEM,
        "get",
        "pods",
        "-l",
        selector,
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]
    return stage.kubectl(*words).split()


def _scale(stage: Stage, component: str, replicas: int) -> None:
    stage.kubectl(
        "-n", SYSTEM, "scale", f"deployment/inferrun-{component}", f"--replicas={replicas}"
    )
    if replicas:
        status = ["rollout", "status", f"deployment/inferrun-{component}", "--timeout=120s"]
        stage.kubectl("-n", SYSTEM, *status, seconds=130)
    else:
        until(lambda: not _pods_of(stage, component), seconds=60, what=f"no Pod of {component}")


def _uid(space: Space, name: str) -> str:
    found = space.get("inferencerun", name)
    assert found is not None
    return str(found["metadata"]["uid"])


@pytest.fixture
def short_margin(stage: Stage) -> Iterator[Stage]:
    """The installation with a margin of a few seconds, so that the kubelet's time limit takes
    effect during a test."""
    install(stage, f"settings.deadlineMarginSeconds={MARGIN}")
    yield stage
    install(stage)


@pytest.fixture
def whole(stage: Stage) -> Iterator[Stage]:
    """The installation, whose components are all started again after the test."""
    yield stage
    stage.control_component("start", "temporal")
    for component in ("shim", "worker"):
        _scale(stage, component, 2)


def test_killing_the_workers_while_a_job_runs_creates_no_second_job(
    space: Space, stage: Stage
) -> None:
    space.apply(run("steady", "actor", parameters={"sleep": "20"}))
    space.wait_for("steady", phase="Running", seconds=60)

    for pod in _pods_of(stage, "worker"):
        kill_9(stage, SYSTEM, pod)

    status = space.wait_for("steady", phase="Succeeded", seconds=150)
    assert status["attempt"] == 1
    assert len(space.items("jobs")) == 1


@pytest.mark.thorough
def test_a_pod_ends_at_its_deadline_while_worker_and_temporal_are_stopped(
    space: Space, short_margin: Stage, whole: Stage
) -> None:
    stage = short_margin
    space.apply(run("unwatched", "actor", timeoutSeconds=5, parameters={"sleep": "600"}))
    space.wait_for("unwatched", phase="Running", seconds=60)
    selector = f"inferrun.dev/run-uid={_uid(space, 'unwatched')}"
    stage.control_component("stop", "temporal")
    _scale(stage, "worker", 0)

    def ended() -> bool:
        phases = [item["status"]["phase"] for item in space.items("pods", selector)]
        return all(phase == "Failed" for phase in phases)

    until(ended, seconds=5 + MARGIN + 20, what="the kubelet has ended the Pod")
    stage.control_component("start", "temporal")
    _scale(stage, "worker", 1)

    space.wait_for("unwatched", phase="Failed", reason="DeadlineExceeded", seconds=150)
    assert len(space.items("jobs")) <= 1

"""Runs survive the failure of components of the product and of the cluster."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import install
from tests.e2e.stage import SYSTEM, Space, Stage, config, kill_9, run, until

pytestmark = pytest.mark.alone

MARGIN = 5


def _pods_of(stage: Stage, component: str) -> list[str]:
    selector = f"app.kubernetes.io/component={component}"
    words = ["-n", SYSTEM, "get", "pods", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}"]
    return stage.kubectl(*words).split()


def _scale(stage: Stage, component: str, replicas: int) -> None:
    stage.kubectl("-n", SYSTEM, "scale", f"deployment/inferrun-{component}", f"--replicas={replicas}")
    if replicas:
        status = ["rollout", "status", f"deployment/inferrun-{component}", "--timeout=120s"]
        stage.kubectl("-n", SYSTEM, *status, seconds=130)
    else:
        until(lambda: not _pods_of(stage, component), seconds=60, what=f"no Pod of {component}")


def _kill_9(stage: Stage, component: str) -> None:
    """Send SIGKILL to the process in the component's Pod, which is then restarted."""
    kill_9(stage, SYSTEM, _pods_of(stage, component)[0])


def _uid(space: Space, name: str) -> str:
    found = space.get("inferencerun", name)
    assert found is not None
    return str(found["metadata"]["uid"])


@pytest.fixture(scope="module")
def short_margin(stage: Stage) -> Iterator[Stage]:
    """The installation with a margin of a few seconds, so that the kubelet's time limit takes effect during a test."""
    install(stage, f"settings.deadlineMarginSeconds={MARGIN}")
    yield stage
    install(stage)


@pytest.fixture
def whole(stage: Stage) -> Iterator[Stage]:
    """The installation, whose components are all started again after the test."""
    yield stage
    stage.control_component("start", "temporal")
    for component in ("shim", "worker"):
        _scale(stage, component, 1)


def test_killing_the_worker_while_a_job_runs_creates_no_second_job(space: Space, stage: Stage) -> None:
    space.apply(run("steady", "actor", parameters={"sleep": "20"}))
    space.wait_for("steady", phase="Running", seconds=60)

    _kill_9(stage, "worker")

    status = space.wait_for("steady", phase="Succeeded", seconds=150)
    assert status["attempt"] == 1
    assert len(space.items("jobs")) == 1


@pytest.mark.thorough
def test_two_concurrent_shims_start_one_job_per_run(space: Space, stage: Stage, whole: Stage) -> None:
    _scale(stage, "shim", 2)
    names = [f"twin-{number}" for number in range(8)]

    space.apply(*(run(name, "actor") for name in names))

    for name in names:
        space.wait_for(name, phase="Succeeded", seconds=90)
    assert len(space.items("jobs")) == len(names)
    assert all(space.status(name)["attempt"] == 1 for name in names)


@pytest.mark.thorough
def test_a_run_applied_while_no_shim_is_running_is_started_by_the_next_one(
    space: Space, stage: Stage, whole: Stage
) -> None:
    _scale(stage, "shim", 0)
    space.apply(run("patient", "actor"))
    assert space.status("patient") == {}

    _scale(stage, "shim", 1)

    space.wait_for("patient", phase="Succeeded", seconds=60)


@pytest.mark.thorough
def test_killing_the_shim_before_it_starts_a_workflow_loses_no_run(space: Space, stage: Stage, whole: Stage) -> None:
    stage.control_component("stop", "temporal")  # so that it stays between the two
    space.apply(run("seen", "actor"))
    space.wait_for("seen", phase="Pending", reason="Accepted", seconds=20)
    _kill_9(stage, "shim")

    stage.control_component("start", "temporal")

    status = space.wait_for("seen", phase="Succeeded", seconds=120)
    assert status["attempt"] == 1
    assert len(space.items("jobs")) == 1


@pytest.mark.thorough
def test_deletion_works_while_shim_worker_and_temporal_are_stopped(space: Space, stage: Stage, whole: Stage) -> None:
    space.apply(run("orphan", "actor", parameters={"sleep": "600"}))
    space.wait_for("orphan", phase="Running", seconds=60)
    selector = f"inferrun.dev/run-uid={_uid(space, 'orphan')}"
    workflow = space.status("orphan")["workflow"]["id"]
    _scale(stage, "shim", 0)
    _scale(stage, "worker", 0)
    stage.control_component("stop", "temporal")

    space.kubectl("delete", "inferencerun", "orphan", "--timeout=20s")

    until(
        lambda: not any(space.items(kind, selector) for kind in ("pods", "jobs", "configmaps")),
        seconds=40,
        what="nothing is left of the run",
    )
    stage.control_component("start", "temporal")
    _scale(stage, "worker", 1)
    _scale(stage, "shim", 1)
    until(
        lambda: "RUNNING" not in stage.temporal("workflow", "describe", "-w", workflow, "-o", "json"),
        seconds=150,
        what="the workflow is closed",
    )


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


@pytest.mark.thorough
def test_a_pod_whose_time_limit_expires_before_it_starts_is_replaced(space: Space, short_margin: Stage) -> None:
    space.apply(config("nowhere", image="localhost/no/such:1"), run("held-up", "nowhere", timeoutSeconds=5))
    first = space.wait_for("held-up", phase="Pending", reason="ImagePullFailed", seconds=30)["jobStatus"]["name"]

    def replaced() -> bool:
        status = space.status("held-up")
        assert status["phase"] == "Pending", json.dumps(status)
        return bool(status["jobStatus"]["name"] != first)

    until(replaced, seconds=5 + MARGIN + 60, what="a new launch")

    assert space.status("held-up")["attempt"] == 1


@pytest.mark.thorough
def test_a_recovery_workflow_adopts_the_job_of_a_lost_workflow(space: Space, stage: Stage, whole: Stage) -> None:
    space.apply(run("adopted", "actor", parameters={"sleep": "15"}), run("over", "actor"))
    running = space.wait_for("adopted", phase="Running", seconds=60)
    over = space.wait_for("over", phase="Succeeded", seconds=60)
    for status in (running, over):  # as after Temporal's retention, or with a lost database
        stage.temporal("workflow", "delete", "-w", status["workflow"]["id"])

    _scale(stage, "shim", 0)
    _scale(stage, "shim", 1)

    status = space.wait_for("adopted", phase="Succeeded", seconds=90)
    assert status["attempt"] == 1
    assert status["jobStatus"]["uid"] == running["jobStatus"]["uid"]
    assert status["workflow"]["runId"] != running["workflow"]["runId"]
    assert space.status("over") == over
    assert len(space.items("jobs")) == 2

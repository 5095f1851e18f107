"""A run's result is that of its container `inference`, whatever a webhook adds to its Pods, and
whoever deletes or rejects them."""

from functools import partial
from pathlib import Path

import pytest

from tests.e2e.pod_webhook import SLEEP, beside, native, webhook
from tests.e2e.stage import Object, Space, config, run, until


def pods_of_runs(space: Space) -> list[Object]:
    return space.items("pods", "app.kubernetes.io/managed-by=inferrun")


def jobs(space: Space) -> list[Object]:
    return space.items("jobs")


def ended(space: Space, name: str, *, seconds: float, most_pods: int = 1) -> Object:
    """The status of the run at its end, if it never had more Pods at a time."""

    def look() -> Object | None:
        assert len(pods_of_runs(space)) <= most_pods
        status = space.status(name)
        return status if status.get("phase") in ("Succeeded", "Failed") else None

    return until(look, seconds=seconds, what=f"{name} has ended", now=lambda: space.phase(name))


def leaves_nothing(space: Space) -> None:
    until(lambda: not pods_of_runs(space) and not jobs(space), seconds=60, what="no Pod and no Job")


def test_a_success_beside_a_container_that_runs_on_is_recorded_and_leaves_no_pod(
    space: Space, tmp_path: Path
) -> None:
    with webhook(space, tmp_path, beside(SLEEP)):
        space.apply(run("held", "actor", parameters={"sleep": "1"}))
        status = ended(space, "held", seconds=60)
        assert (status["phase"], status["exitCode"], status["attempt"]) == ("Succeeded", 0, 1)
        leaves_nothing(space)


@pytest.mark.thorough
def test_the_next_attempt_begins_when_a_container_that_runs_on_beside_a_failure_is_gone(
    space: Space, tmp_path: Path
) -> None:
    space.apply(config("twice", backoffLimit=1))
    with webhook(space, tmp_path, beside(SLEEP)):
        space.apply(run("failed", "twice", parameters={"sleep": "1", "exit": "3"}))
        status = ended(space, "failed", seconds=120)
    assert (status["phase"], status["reason"], status["attempt"]) == ("Failed", "InputFailed", 2)
    assert [(item["reason"], item["exitCode"]) for item in status["attempts"]] == [
        ("InputFailed", 3)
    ] * 2
    assert not pods_of_runs(space)


@pytest.mark.thorough
@pytest.mark.parametrize("code", [0, 3])
def test_a_restartable_init_container_ends_with_its_run_whose_job_is_kept(
    space: Space, tmp_path: Path, code: int
) -> None:
    with webhook(space, tmp_path, native):
        space.apply(run("native", "actor", parameters={"sleep": "1", "exit": str(code)}))
        status = ended(space, "native", seconds=60)
    assert (status["phase"], status["exitCode"]) == ("Failed" if code else "Succeeded", code)
    condition = "failed" if code else "complete"
    space.kubectl("wait", "job", "--all", f"--for=condition={condition}", "--timeout=45s")
    assert len(jobs(space)) == 1


@pytest.mark.parametrize("by_force", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_pod_that_is_deleted_is_no_attempt_whatever_its_exit_code(
    space: Space, *, by_force: bool
) -> None:
    """As process 1, a Go program that does not handle SIGTERM exits with 2: our code for a contract
    that is not valid."""
    space.apply(run("deleted", "actor", parameters={"sleep": "15", "stopped": "2"}))
    space.wait_for("deleted", phase="Running", seconds=60)
    [pod] = pods_of_runs(space)
    force = ["--force", "--grace-period=0"] if by_force else []
    space.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false", *force)

    status = ended(space, "deleted", seconds=120, most_pods=2)

    assert (status["phase"], status["attempt"]) == ("Succeeded", 1)
    assert [item["reason"] for item in status["attempts"]] == ["Disrupted", "Succeeded"]
    assert status["attempts"][0]["exitCode"] in (2, 137)


def test_a_pod_that_its_node_rejects_is_no_attempt(space: Space, tmp_path: Path) -> None:
    [node] = [item["metadata"]["name"] for item in space.items("nodes")]
    with webhook(space, tmp_path, partial(overfill, node)):
        space.apply(run("rejected", "actor"))
        status = ended(space, "rejected", seconds=60, most_pods=2)
    assert (status["phase"], status["attempt"]) == ("Succeeded", 1)
    assert [item["reason"] for item in status["attempts"]] == ["Disrupted", "Succeeded"]
    assert "OutOfcpu" in status["attempts"][0]["message"]


def overfill(node: str, _pod: Object, seen: int) -> list[Object]:
    """Bind the first Pod to a node that has no room for it, as two schedulers may do at the same
    time."""
    if seen:
        return []
    return [
        {"op": "add", "path": "/spec/nodeName", "value": node},
        {
            "op": "add",
            "path": "/spec/containers/0/resources",
            "value": {"requests": {"cpu": "4000"}},
        },
    ]

"""A Pod that is killed or disappears around its commit: the run succeeds if and only if the output
is committed."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.file_world import RECORDS, UNHURRIED, in_pod, prepare
from tests.e2e.stage import Object, Space, processes_of, run, until

COUNTS = {"total": RECORDS, "completed": RECORDS, "failed": 0}
LIMIT = 60
"""timeoutSeconds of the runs that are stopped at their deadline; longer than they take to
commit."""


class Runner:
    """The runner's process, seen from the node."""

    def __init__(self, space: Space) -> None:
        pods = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
        self._space = space
        self.pod = str(pods[0]["metadata"]["name"])
        self._processes = [
            int(number) for number in processes_of(space.stage, space.name, self.pod)
        ]

    @property
    def _folder(self) -> Path:
        return Path(f"/proc/{self._processes[0]}/root/data/output/out")

    def freeze_once(self, pattern: str) -> None:
        """Stop the process as soon as such a file is in the output folder."""
        deadline = time.monotonic() + 60
        while not any(self._folder.glob(pattern)):
            assert time.monotonic() < deadline, f"no {pattern}"
        for number in self._processes:
            os.kill(number, signal.SIGSTOP)

    def kill(self) -> None:
        """End the process without a result."""
        for number in self._processes:
            os.kill(number, signal.SIGKILL)


def started(space: Space, name: str, **spec: int) -> Runner:
    """The runner of a run that has just started."""
    space.apply(run(name, "ours", parameters=None, **spec))
    space.wait_for(name, phase="Running", seconds=60)
    return Runner(space)


def jobs(space: Space) -> list[Object]:
    return [
        job
        for job in space.items("jobs")
        if job["metadata"]["annotations"]["inferrun.dev/runner"] != "verify"
    ]


def is_aborted(space: Space) -> bool:
    return "aborted" in in_pod(space, "cat /data/out/*/manifest.json 2>/dev/null || true")


def test_a_pod_that_is_killed_right_after_its_commit_has_succeeded(space: Space) -> None:
    prepare(space, backoff_limit=2, requests=UNHURRIED)
    runner = started(space, "committed")

    runner.freeze_once("*/manifest.json")
    runner.kill()

    status = space.wait_for("committed", phase="Succeeded", seconds=90)
    assert (status["attempt"], status["records"], status["delivery"]) == (1, COUNTS, "ExactlyOnce")
    assert "although its Pod left no result" in status["message"]
    assert len(jobs(space)) == 1
    assert [attempt["reason"] for attempt in status["attempts"]] == ["Succeeded"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("pattern", "phase"),
    [
        ("*/manifest.json", "Succeeded/Succeeded"),
        ("*/predictions/part-*", "Failed/DeadlineExceeded"),
    ],
)
def test_a_deadline_around_the_commit_is_a_success_if_it_is_committed(
    space: Space, pattern: str, phase: str
) -> None:
    prepare(space, backoff_limit=0, requests=UNHURRIED)
    runner = started(space, "limited", timeoutSeconds=LIMIT)

    runner.freeze_once(pattern)

    until(
        lambda: space.phase("limited").split("/")[0] in ("Succeeded", "Failed"),
        seconds=120,
        what="the run has ended",
    )
    assert space.phase("limited") == phase
    assert (space.status("limited").get("records") == COUNTS) is phase.startswith("Succeeded")
    assert is_aborted(space) is phase.startswith("Failed")

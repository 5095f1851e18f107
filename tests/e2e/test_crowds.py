"""Runs that wait for something that never comes must not delay other runs: nothing is held for a run that waits."""

import time
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.stage import Object, Space, Stage, config, run, until

pytestmark = [pytest.mark.alone, pytest.mark.thorough]

WAITING_RUNS = 260
"""More than the activity slots of a worker, which a waiting run used to hold."""

HELD_PODS = 60
"""More than the slots for stops."""

CROWD_SECONDS = 240
"""What a busy machine may take until the crowd is there."""

MARGIN_SECONDS = 40
"""What a busy machine may take for a Pod's start and end, besides the time that the run itself takes. A slot that a waiting run
holds is free after minutes."""


@pytest.fixture
def crowd(stage: Stage) -> Iterator[Space]:
    """A second namespace, full of runs that cannot go on."""
    name = f"crowd-{uuid.uuid4().hex[:8]}"
    stage.kubectl("create", "namespace", name)
    space = Space(stage, name)
    try:
        yield space
    finally:
        _release_pods(space)
        space.kubectl("delete", "inferenceruns", "--all", "--wait=false", check=False)
        # The next test, or a second attempt, must not begin while hundreds of runs are being deleted.
        stage.kubectl("delete", "namespace", name, "--timeout=180s", check=False, seconds=200)


def test_runs_whose_pods_cannot_be_scheduled_delay_nobody_else(crowd: Space, space: Space) -> None:
    crowd.apply(config("huge", resources={"requests": {"cpu": "64"}}))
    crowd.apply(*(run(f"waiting-{number}", "huge") for number in range(WAITING_RUNS)), seconds=CROWD_SECONDS)
    until(
        lambda: _count(crowd, "Unschedulable") == WAITING_RUNS,
        seconds=CROWD_SECONDS,
        what="every run says that its Pod cannot be scheduled",
        now=lambda: str(_count(crowd, "Unschedulable")),
    )
    _expect_prompt_ends(space)


def test_stops_of_pods_that_a_finalizer_holds_delay_nobody_else(crowd: Space, space: Space) -> None:
    crowd.apply(config("huge", resources={"requests": {"cpu": "64"}}))
    crowd.apply(*(run(f"held-{number}", "huge", pendingTimeoutSeconds=90) for number in range(HELD_PODS)))
    until(lambda: len(crowd.items("pods")) == HELD_PODS, seconds=CROWD_SECONDS, what="every run has a Pod")
    _patch_pods(crowd, crowd.items("pods"), '{"metadata": {"finalizers": ["example.com/held"]}}')
    _expect_prompt_ends(space)
    until(
        lambda: _count(crowd, "PendingTimeout") == HELD_PODS,
        seconds=CROWD_SECONDS,
        what="every held run has ended",
        now=lambda: str(_count(crowd, "PendingTimeout")),
    )


def _expect_prompt_ends(space: Space) -> None:
    """A run of a second succeeds, and another one is stopped at its deadline, both in time."""
    applied = time.monotonic()
    space.apply(
        run("quick", "actor", parameters={"sleep": "1"}),
        run("late", "actor", parameters={"sleep": "600", "ignore": "yes"}, timeoutSeconds=5),
    )
    space.wait_for("quick", phase="Succeeded", seconds=1 + MARGIN_SECONDS)
    status = space.wait_for("late", phase="Failed", reason="DeadlineExceeded", seconds=5 + 5 + MARGIN_SECONDS)
    assert time.monotonic() - applied < 5 + 5 + MARGIN_SECONDS, status


def _count(space: Space, reason: str) -> int:
    return sum((item.get("status") or {}).get("reason") == reason for item in space.items("inferenceruns"))


def _release_pods(space: Space) -> None:
    held = [pod for pod in space.items("pods") if pod["metadata"].get("finalizers")]
    if held:
        _patch_pods(space, held, '{"metadata": {"finalizers": null}}', check=False)


def _patch_pods(space: Space, pods: list[Object], patch: str, *, check: bool = True) -> None:
    """Patch all with one command, because each takes a second on a busy machine."""
    names = [pod["metadata"]["name"] for pod in pods]
    space.kubectl("patch", "pod", *names, "--type=merge", "-p", patch, check=check, seconds=CROWD_SECONDS)

"""A run that a user suspends, and one whose Job a queue suspends, on a real node."""

import json

import pytest

from tests.e2e.file_world import RECORDS, UNHURRIED, committed_in, counts_of, prepare
from tests.e2e.stage import Object, Space, run, until

SELECTOR = "app.kubernetes.io/managed-by=inferrun"


def suspend(space: Space, name: str, *, is_suspended: bool) -> None:
    patch = json.dumps({"spec": {"suspend": is_suspended}})
    space.kubectl("patch", "inferencerun", name, "--type", "merge", "-p", patch)


def test_a_suspended_run_has_no_job_and_continues_after_what_it_has_committed(space: Space) -> None:
    prepare(space, backoff_limit=0, requests=UNHURRIED)
    space.apply(run("paused", "ours", timeoutSeconds=600))
    space.wait_for("paused", phase="Running", seconds=60)
    until(
        lambda: len(committed_in(space)) >= RECORDS / 8, seconds=60, what="an eighth is committed"
    )

    suspend(space, "paused", is_suspended=True)

    status = space.wait_for("paused", phase="Suspended", reason="Suspended", seconds=40)
    committed = {item["index"] for item in committed_in(space)}
    assert len(committed) < RECORDS, "it was over before it could be suspended"
    for kind in ("jobs", "pods"):
        assert not space.items(kind, SELECTOR)
    assert [(item["reason"], item["attempt"]) for item in status["attempts"]] == [("Suspended", 1)]
    assert status["attempts"][0]["nodeName"]

    suspend(space, "paused", is_suspended=False)

    status = space.wait_for("paused", phase="Succeeded", seconds=120)
    assert (status["attempt"], len(status["attempts"])) == (1, 2)
    assert [item["index"] for item in committed_in(space)] == list(range(RECORDS))
    counts = counts_of(space)
    assert all(counts[row] == 1 for row in committed), "a committed chunk was sent again"


def patch_job(space: Space, name: str, body: Object, *words: str) -> None:
    space.kubectl("patch", "job", name, "--type", "merge", "-p", json.dumps(body), *words)


@pytest.mark.thorough
def test_a_job_that_a_queue_preempts_and_admits_again_is_one_attempt(space: Space) -> None:
    """The requests are those that Kueue's integration of Jobs makes."""
    queued = run("queued", "actor", timeoutSeconds=120, parameters={"sleep": "20"})
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "small"}
    space.apply(queued)
    space.wait_for("queued", phase="Running", seconds=60)
    [job] = space.items("jobs", SELECTOR)
    name = job["metadata"]["name"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "small"

    stopping = "kueue.x-k8s.io/stopping"
    patch_job(
        space, name, {"metadata": {"annotations": {stopping: "true"}}, "spec": {"suspend": True}}
    )
    patch_job(space, name, {"status": {"startTime": None}}, "--subresource=status")
    patch_job(space, name, {"metadata": {"annotations": {stopping: None}}})

    status = space.wait_for("queued", phase="Pending", reason="Queued", seconds=40)
    until(lambda: not space.items("pods", SELECTOR), seconds=30, what="no Pod is left")
    assert "queueing system" in status["message"]

    patch_job(space, name, {"spec": {"suspend": False}})

    status = space.wait_for("queued", phase="Succeeded", seconds=90)
    assert status["attempt"] == 1
    assert [(item["reason"], item.get("replaced")) for item in status["attempts"]] == [
        ("Queued", True),
        ("Succeeded", None),
    ]
    assert len(space.items("jobs", SELECTOR)) == 1

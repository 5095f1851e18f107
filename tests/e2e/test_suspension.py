"""A run that a user suspends, on a real node."""

import json

from tests.e2e.file_world import RECORDS, UNHURRIED, committed_in, counts_of, prepare
from tests.e2e.stage import Space, run, until


def suspend(space: Space, name: str, *, is_suspended: bool) -> None:
    patch = json.dumps({"spec": {"suspend": is_suspended}})
    space.kubectl("patch", "inferencerun", name, "--type", "merge", "-p", patch)


def test_a_suspended_run_has_no_job_and_continues_after_what_it_has_committed(space: Space) -> None:
    prepare(space, backoff_limit=0, requests=UNHURRIED)
    space.apply(run("paused", "ours", timeoutSeconds=600))
    space.wait_for("paused", phase="Running", seconds=60)
    until(lambda: len(committed_in(space)) >= RECORDS / 8, seconds=60, what="an eighth is committed")

    suspend(space, "paused", is_suspended=True)

    status = space.wait_for("paused", phase="Suspended", reason="Suspended", seconds=40)
    committed = {item["index"] for item in committed_in(space)}
    assert len(committed) < RECORDS, "it was over before it could be suspended"
    for kind in ("jobs", "pods"):
        assert not space.items(kind, "app.kubernetes.io/managed-by=inferrun")
    assert [(item["reason"], item["attempt"]) for item in status["attempts"]] == [("Suspended", 1)]
    assert status["attempts"][0]["nodeName"]

    suspend(space, "paused", is_suspended=False)

    status = space.wait_for("paused", phase="Succeeded", seconds=120)
    assert (status["attempt"], len(status["attempts"])) == (1, 2)
    assert [item["index"] for item in committed_in(space)] == list(range(RECORDS))
    counts = counts_of(space)
    assert all(counts[row] == 1 for row in committed), "a committed chunk was sent again"

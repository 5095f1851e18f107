"""A `file` run of three Pods on a real claim, of which one is killed in the middle."""

import json

from tests.e2e.file_world import FOLDER, RECORDS, committed_in, counts_of, in_pod, prepare
from tests.e2e.stage import Object, Space, kill_9, run, until

SHARDS = 3


def running(space: Space) -> list[Object]:
    """The Pods of the run whose containers run."""
    pods = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


def test_a_killed_pod_of_several_neither_ends_the_run_nor_costs_it_committed_records(space: Space) -> None:
    prepare(space, backoff_limit=2, requests={"maxBatchRecords": 200, "concurrency": 1})
    space.apply(run("divided", "ours", shards=SHARDS))
    space.wait_for("divided", phase="Running", seconds=60)
    pods = until(
        lambda: found if len(found := running(space)) == SHARDS else None, seconds=60, what=f"{SHARDS} Pods run"
    )
    until(lambda: len(committed_in(space)) >= RECORDS / 16, seconds=60, what="a sixteenth is committed")

    committed = {item["index"] for item in committed_in(space)}
    kill_9(space.stage, space.name, pods[1]["metadata"]["name"])

    status = space.wait_for("divided", phase="Succeeded", seconds=180)
    assert len(committed) < RECORDS, "it was over before it could be disturbed"
    assert status["attempt"] == 1
    assert status["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0}
    assert status["delivery"] == "ExactlyOnce"
    assert [item["index"] for item in committed_in(space)] == list(range(RECORDS))
    counts = counts_of(space)
    assert set(counts) == set(range(RECORDS))
    assert all(counts[row] == 1 for row in committed), "a committed chunk was sent again"
    manifest = json.loads(in_pod(space, f"cat {FOLDER}/out/*/manifest.json"))
    assert manifest["records"]["completed"] == RECORDS

"""A `file` run on a real claim with a counting model server, of which a Pod is killed in the
middle."""

import json

import pytest

from tests.e2e.file_world import (
    FOLDER,
    RECORDS,
    UNHURRIED,
    committed_in,
    counts_of,
    in_pod,
    prepare,
)
from tests.e2e.stage import Object, Space, kill_9, run, until


def running(space: Space, count: int) -> list[Object] | None:
    """The Pods of the run, once so many of their containers run."""
    pods = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    found = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    return found if len(found) == count else None


@pytest.mark.parametrize(
    ("shards", "requests", "attempt"),
    [
        (1, UNHURRIED, 2),
        pytest.param(3, {"maxBatchRecords": 200, "concurrency": 1}, 1, marks=pytest.mark.thorough),
    ],
    ids=["one Pod", "several Pods, which go on"],
)
def test_killing_a_pod_neither_loses_nor_duplicates_records_nor_repeats_chunks(
    space: Space, shards: int, requests: Object, attempt: int
) -> None:
    prepare(space, backoff_limit=2, requests=requests)
    space.apply(run("counted", "ours", shards=shards))
    space.wait_for("counted", phase="Running", seconds=60)
    assert space.get("networkpolicy", "inferrun-system-inferrun-runs") is not None
    pods = until(lambda: running(space, shards), seconds=60, what=f"{shards} Pods run")
    until(
        lambda: len(committed_in(space)) >= RECORDS / 16,
        seconds=60,
        what="a sixteenth is committed",
    )

    committed = {item["index"] for item in committed_in(space)}
    kill_9(space.stage, space.name, pods[-1]["metadata"]["name"])

    status = space.wait_for("counted", phase="Succeeded", seconds=180)
    assert len(committed) < RECORDS, "it was over before it could be disturbed"
    assert status["attempt"] == attempt
    assert status["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0}
    assert status["delivery"] == "ExactlyOnce"
    predictions = committed_in(space)
    assert [item["index"] for item in predictions] == list(range(RECORDS))
    assert all(
        item["prediction"] in (item["index"] + 1, [item["index"] + 1]) for item in predictions
    )
    counts = counts_of(space)
    assert set(counts) == set(range(RECORDS))
    assert all(counts[row] == 1 for row in committed), "a committed chunk was sent again"
    manifest = json.loads(in_pod(space, f"cat {FOLDER}/out/*/manifest.json"))
    assert manifest["records"]["completed"] == RECORDS

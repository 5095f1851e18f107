"""A `file` run on a real claim with a counting model server, whose Pod is killed in the middle."""

import json

from tests.e2e.file_world import FOLDER, RECORDS, UNHURRIED, committed_in, counts_of, in_pod, prepare
from tests.e2e.stage import Space, kill_9, run, until


def test_killing_a_pod_neither_loses_nor_duplicates_records_nor_repeats_chunks(space: Space) -> None:
    prepare(space, backoff_limit=2, requests=UNHURRIED)
    space.apply(run("counted", "ours"))
    space.wait_for("counted", phase="Running", seconds=60)
    assert space.get("networkpolicy", "inferrun-system-inferrun-runs") is not None
    until(lambda: len(committed_in(space)) >= RECORDS / 8, seconds=60, what="an eighth is committed")

    pods = space.items("pods", "app.kubernetes.io/managed-by=inferrun")
    committed = {item["index"] for item in committed_in(space)}
    kill_9(space.stage, space.name, pods[0]["metadata"]["name"])

    status = space.wait_for("counted", phase="Succeeded", seconds=150)
    assert len(committed) < RECORDS, "it was over before it could be disturbed"
    assert status["attempt"] == 2
    assert status["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0}
    assert status["delivery"] == "ExactlyOnce"
    predictions = committed_in(space)
    assert [item["index"] for item in predictions] == list(range(RECORDS))
    assert all(item["prediction"] in (item["index"] + 1, [item["index"] + 1]) for item in predictions)
    counts = counts_of(space)
    assert set(counts) == set(range(RECORDS))
    assert all(counts[row] == 1 for row in committed), "a committed chunk was sent again"
    manifest = json.loads(in_pod(space, f"cat {FOLDER}/out/*/manifest.json"))
    assert manifest["records"]["completed"] == RECORDS

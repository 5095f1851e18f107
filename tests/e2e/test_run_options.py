"""What a user sees of `dryRun`, `retryOf`, `errorThreshold`, `canaryRecords` and columns, on a real
claim with a counting model."""

import json

import pytest

from tests.e2e.file_world import counts_of, in_pod, prepare_rows
from tests.e2e.stage import Object, Space, run

pytestmark = pytest.mark.thorough

GOOD = 60
BAD = (-1, -2, -3)
"""First values of the records that the model `counting` rejects, and the model `lenient`
accepts."""


def rows(space: Space, *, bad_first: bool = False) -> int:
    """Write the input, and return the number of its records."""
    good = [[index, 1] for index in range(GOOD)]
    bad = [[value, 1] for value in BAD]
    lines = [*bad, *good] if bad_first else [*good[:30], *bad, *good[30:]]
    in_pod(space, f"printf '%s\\n' {' '.join(repr(str(line)) for line in lines)} > /data/in.jsonl")
    return len(lines)


def results(space: Space, job: str) -> list[Object]:
    text = in_pod(space, f"cat /data/out/{job}/predictions/part-*")
    return [json.loads(line) for line in text.splitlines()]


def row_of(space: Space, name: str) -> list[str]:
    line = next(
        line
        for line in space.kubectl("get", "inferenceruns").splitlines()
        if line.startswith(f"{name} ")
    )
    return line.split()


def job_of(space: Space, name: str) -> str:
    """The folder of a run's output."""
    location: str = space.status(name)["output"]["location"]
    return location.rpartition("/")[2]


def test_a_dry_run_checks_everything_and_leaves_nothing(space: Space) -> None:
    prepare_rows(space)
    count = rows(space)
    space.apply(run("check", "ours", dryRun=True))
    status = space.wait_for("check", phase="Succeeded", reason="DryRunSucceeded", seconds=120)
    assert f"the first {count} records are arrays of 2 numbers" in status["message"]
    assert "output.file data/out/" in status["message"]
    assert "nothing was predicted or stored" in status["message"]
    assert row_of(space, "check")[1:3] == ["Succeeded", "DryRunSucceeded"]
    assert counts_of(space) == {}
    assert in_pod(space, "ls /data/out 2>/dev/null || true").split() == []


def test_a_retry_predicts_only_what_failed_and_its_output_is_complete(space: Space) -> None:
    prepare_rows(space)
    count = rows(space)
    space.apply(run("first", "ours"))
    status = space.wait_for("first", phase="Succeeded", seconds=120)
    assert status["records"] == {"total": count, "completed": GOOD, "failed": len(BAD)}
    failed = [one for one in results(space, job_of(space, "first")) if "error" in one]
    assert [one["index"] for one in failed] == [30, 31, 32]
    assert {one["error"]["code"] for one in failed} == {"rejected"}

    prepare_rows(space, model="lenient")
    space.apply(run("again", "ours", retryOf="first"))
    status = space.wait_for("again", phase="Succeeded", seconds=120)
    assert status["records"] == {"total": count, "completed": count, "failed": 0}
    assert [one["index"] for one in results(space, job_of(space, "again"))] == list(range(count))
    counts = counts_of(space)
    assert {counts[index] for index in range(GOOD)} == {1}, (
        "a record that had a prediction was sent again"
    )
    assert {counts[value] for value in BAD} == {1}

"""The command line with the installed product: what a user does on a day, on a real node."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.file_world import RECORDS, UNHURRIED, prepare
from tests.e2e.stage import ROOT, Space, kill_9, run, until


def inferrun(space: Space, *words: str, seconds: float = 120) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        _command(space, *words),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=ROOT,
    )


@contextmanager
def started(space: Space, *words: str) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = _command(space, *words)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _command(space: Space, *words: str) -> list[str]:
    where = ["-n", space.name, "--kubeconfig", str(space.stage.kubeconfig)]
    return [sys.executable, "-m", "inferrun.cli", *words, *where]


def test_the_log_is_followed_from_before_the_pod_exists_across_attempts(space: Space) -> None:
    prepare(space, backoff_limit=2, requests=UNHURRIED)
    space.apply(run("mine", "ours"))
    with (
        started(space, "logs", "-f", "mine") as following,
        started(space, "wait", "mine", "-o", "json") as waiting,
    ):
        until(
            lambda: space.status("mine").get("records", {}).get("completed", 0) > 0,
            seconds=90,
            what="it has predicted",
        )
        kill_9(
            space.stage,
            space.name,
            space.items("pods", "app.kubernetes.io/managed-by=inferrun")[0]["metadata"]["name"],
        )
        space.wait_for("mine", phase="Succeeded", seconds=150)
        log, _ = following.communicate(timeout=30)
        result, _ = waiting.communicate(timeout=30)
    assert (following.returncode, waiting.returncode) == (0, 0)
    assert json.loads(result)["records"]["completed"] == RECORDS
    first, second = [text for text in log.splitlines() if "run started" in text]
    assert "attempt" not in first.partition("run started")[0]
    assert second.startswith("attempt 2 ")
    # the last progress and the end are of two streams, whose order the node does not keep
    last = log.splitlines()[-2:]
    assert any(f"{RECORDS} of {RECORDS} records predicted" in line for line in last)
    assert inferrun(space, "logs", "mine", "--raw").stdout.count('"message": "run started"') >= 1
    described = inferrun(space, "describe", "mine").stdout
    for expected in ("Succeeded", "Attempts", "Last log lines", "http"):
        assert expected in described


@pytest.mark.thorough
def test_a_run_is_started_waited_for_and_cancelled_in_one_line_each(space: Space) -> None:
    done = inferrun(space, "run", "actor", "-p", "sleep=1", "--wait")
    assert done.returncode == 0, done.stderr
    assert " Succeeded" in done.stdout
    failed = inferrun(space, "run", "actor", "-p", "exit=4", "--wait")
    assert failed.returncode == 1
    assert "InferenceFailed" in failed.stderr
    with started(space, "run", "actor", "-p", "sleep=600", "--name", "long", "--wait") as waiting:
        space.wait_for("long", phase="Running", seconds=60)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=30) == 130
    assert space.phase("long") == "Running/Running"
    assert inferrun(space, "cancel", "long").returncode == 0
    assert inferrun(space, "wait", "long").returncode == 1
    assert space.phase("long") == "Failed/Cancelled"

"""The demo's program: a promise that is not kept ends it, and a cure is the command that the status message holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from activities.rules.diagnosis import missing_secret
from examples.demo.stage import BrokenPromise, Stage
from examples.demo.waiting_for_a_secret import cure_in


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(checkout=tmp_path, environment=os.environ)


def test_the_cure_is_the_command_in_the_products_own_message() -> None:
    message = missing_secret("data-handler-endpoint", namespace="kserve-test", named="demo-secrets")
    cure = cure_in(message)
    assert cure == "inferrun copy-secret data-handler-endpoint --from demo-secrets --to kserve-test"


def test_a_message_without_a_command_is_a_broken_promise() -> None:
    with pytest.raises(BrokenPromise, match="holds no command"):
        cure_in("Secret 'x' is not there")


def test_a_command_is_shown_as_it_is_run(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.type("echo one; echo two >&2") == "one\ntwo\n"
    assert capsys.readouterr().out == "\n$ echo one; echo two >&2\n  one\n  two\n"


def test_a_command_that_fails_ends_the_demo_with_its_last_line(stage: Stage) -> None:
    with pytest.raises(BrokenPromise, match=r"ended with 3 .*: no such thing"):
        stage.type("echo no such thing >&2; exit 3")


def test_a_failure_in_the_middle_of_a_pipe_counts(stage: Stage) -> None:
    with pytest.raises(BrokenPromise):
        stage.type("false | cat")


def test_a_command_that_hangs_is_ended_with_all_it_started(stage: Stage) -> None:
    with pytest.raises(BrokenPromise, match="ended with -9"):
        stage.type("sleep 600 & echo $! > child; wait", within=0.2)
    child = Path("/proc", (stage.checkout / "child").read_text().strip(), "stat")
    stage.wait("the child is gone", lambda: not _runs(child) or None, within=10)


def _runs(process: Path) -> bool:
    try:
        return process.read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_does_not_come_in_time_is_told_with_what_was_seen_instead(stage: Stage) -> None:
    with pytest.raises(BrokenPromise, match="the run succeeds: not within 0 s; at the end: Pending"):
        stage.wait("the run succeeds", lambda: None, within=0, now=lambda: "Pending")


def test_a_promise_that_does_not_hold_says_what_was_found(stage: Stage) -> None:
    with pytest.raises(BrokenPromise, match="not so: 150 are stored; 149 are"):
        stage.promise(holds=False, text="150 are stored", but="149 are")

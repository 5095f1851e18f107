"""The demo's program: a failed check ends it, and the fix in scene 1 is the command from the status
message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from control.launches.diagnosis import missing_secret
from examples.demo.installation import claim_command
from examples.demo.missing_secret import command_in
from examples.demo.terminal import DemoFailed, Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(checkout=tmp_path, environment=os.environ)


def test_the_fix_is_the_command_in_the_products_own_message() -> None:
    message = missing_secret("data-handler-endpoint", namespace="kserve-test", named="demo-secrets")
    command = command_in(message)
    assert message.rstrip("`. ").endswith(command)
    assert all(name in command for name in ("data-handler-endpoint", "demo-secrets", "kserve-test"))


def test_a_command_is_shown_as_it_is_executed(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert terminal.run("echo one; echo two >&2") == "one\ntwo\n"
    assert capsys.readouterr().out == "\n$ echo one; echo two >&2\n  one\n  two\n"


def test_a_failed_command_ends_the_demo_with_its_last_line(terminal: Terminal) -> None:
    with pytest.raises(DemoFailed, match=r"failed with exit code 3 .*: no such thing"):
        terminal.run("echo no such thing >&2; exit 3")


def test_a_timeout_is_reported_with_the_last_state(terminal: Terminal) -> None:
    with pytest.raises(
        DemoFailed,
        match="timed out after 0 s waiting until the run has succeeded; last state: Pending",
    ):
        terminal.wait("the run has succeeded", lambda: None, timeout=0, state=lambda: "Pending")


def test_a_cluster_without_the_storage_class_uses_its_default_class() -> None:
    assert claim_command(has_class=True) == "kubectl apply -f examples/file-claim.yaml"
    assert claim_command(has_class=False).startswith(
        "sed '/storageClassName:/d' examples/file-claim.yaml | "
    )

"""The command line: mistakes are reported with a fix and a documented code, never with a
traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferrun.cli import main
from inferrun.cli.commands import COMMANDS
from inferrun.cli.reporting import CommandExit
from inferrun.kube.kubeconfig import selected_kubeconfig

ELSEWHERE = """
apiVersion: v1
kind: Config
current-context: dev
contexts: [{name: dev, context: {cluster: dev, user: dev, namespace: team}}]
clusters: [{name: dev, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: dev, user: {}}]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without a kubeconfig, on a machine that selects no server."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "TEMPORAL_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["doctor"],
        ["get"],
        ["run", "iris"],
        ["next", "nightly"],
        ["copy-secret", "s", "--from", "a", "--to", "b"],
    ],
)
def test_without_a_cluster_the_error_explains_how_to_select_one(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == CommandExit.USAGE
    printed = capsys.readouterr().err
    assert printed.startswith("error: no cluster is selected\nfix:   ")
    assert "--kubeconfig" in printed


def test_a_missing_kubeconfig_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--kubeconfig", str(home / "none")]) == CommandExit.USAGE
    assert str(home / "none") in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "kind: Config\n"])
def test_an_invalid_kubeconfig_is_an_error_without_a_traceback(
    home: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (home / "broken").write_text(content)
    assert main(["doctor", "--kubeconfig", str(home / "broken")]) == CommandExit.USAGE
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert "Traceback" not in printed


def test_an_unknown_command_and_no_command_show_the_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["heal"]) == CommandExit.USAGE
    assert main([]) == CommandExit.USAGE
    assert "Usage: inferrun" in capsys.readouterr().err


def test_an_option_that_looks_like_another_one_is_suggested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["get", "--namespac", "a"]) == CommandExit.USAGE
    assert "--namespace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["copy-secret", "s", "--from", "a", "--to", "B"], "'B' is not a valid namespace"),
        (["copy-secret", "S", "--from", "a", "--to", "b"], "'S' is not a valid name"),
        (["run"], "give either the name of a config or --file"),
        (["run", "iris", "-f", "x.yaml"], "give either the name of a config or --file"),
        (["run", "iris", "-p", "day"], "--parameter 'day' is not KEY=VALUE"),
        (["run", "iris", "--interval-start", "2026-11-21"], "--interval-start and --interval-end"),
        (["run", "iris", "--interval-start", "monday", "--interval-end", "2026-11-22"], "'monday'"),
        (
            ["run", "iris", "--interval-start", "2026-11-22", "--interval-end", "2026-11-21"],
            "interval.end",
        ),
        (["run", "iris", "--name", "Iris"], "name: 'Iris'"),
        (["run", "iris", "-p", "job_uid=1"], "'job_uid' is reserved"),
        (["run", "-f", "none.yaml"], "none.yaml: No such file"),
        (["get", "Iris_1"], "'Iris_1' is not the name of a run"),
    ],
)
def test_invalid_arguments_are_reported_before_the_server_is_asked(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    (home / "config").write_text(ELSEWHERE)
    assert main([*words, "--kubeconfig", str(home / "config")]) == CommandExit.USAGE
    assert problem in capsys.readouterr().err


def test_the_kubeconfig_is_found_as_in_kubectl(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, named = home / ".kube" / "config", home / "named"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert selected_kubeconfig(None) is None
    usual.parent.mkdir()
    usual.touch()
    named.touch()
    assert selected_kubeconfig(None) == usual
    monkeypatch.setenv("KUBECONFIG", f"{home}/none:{usual}")
    assert selected_kubeconfig(None) == Path(f"{home}/none:{usual}")
    assert selected_kubeconfig(named) == named


@pytest.mark.parametrize(
    "name", [one.__name__.rstrip("_").replace("_", "-") for row in COMMANDS.values() for one in row]
)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == CommandExit.OK
    assert f"Usage: inferrun {name}" in " ".join(capsys.readouterr().out.split())


def test_the_fire_times_of_an_expression_need_no_cluster(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["next", "0 9 * * MON", "--time-zone", "Europe/Rome", "--count", "3"])
        == CommandExit.OK
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all("Mon " in line and " 09:00:00 CE" in line for line in lines[1:])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["0 25 * * *"], "hour"),
        (["@never"], "@hourly"),
        (["@daily", "--time-zone", "Rome"], "Europe/Rome"),
    ],
)
def test_an_invalid_expression_is_explained(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert main(["next", *words]) == CommandExit.USAGE
    assert problem in capsys.readouterr().err


def test_a_closed_pipe_ends_a_command_with_a_code_of_its_own() -> None:
    command = f"set -o pipefail; {sys.executable} -m inferrun.cli next @hourly -c 1000 | head -1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (CommandExit.CLOSED, "")


def test_an_output_that_cannot_be_written_is_reported() -> None:
    command = f"{sys.executable} -m inferrun.cli next @hourly > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "error: the output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str) -> None:
    typed = "inferrun back"
    variables = {"COMP_WORDS": typed, "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": typed}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['inferrun']; from inferrun.cli import main; sys.exit(main())",
        ],
        env={
            **os.environ,
            **variables,
            "_INFERRUN_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "backfill" in done.stdout
    assert "Traceback" not in done.stderr


def test_kubectl_completes_the_plugin() -> None:
    program = "import sys; from inferrun.cli import complete_for_kubectl; sys.exit(complete_for_kubectl())"
    for words, expected in (
        (["back"], ["backfill", ":4"]),
        (["get", "--all"], ["--all-namespaces", ":4"]),
    ):
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout.splitlines(), done.stderr) == (expected, "")

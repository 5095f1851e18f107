"""The command line: errors are reported with a fix, never with a traceback."""

from pathlib import Path

import pytest
from inferrun.cli.kubeconfig import find_kubeconfig

from inferrun.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without a kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def test_without_a_cluster_the_error_explains_how_to_select_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    assert "--kubeconfig" in capsys.readouterr().err


def test_a_missing_kubeconfig_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--kubeconfig", str(home / "none")]) == 2
    assert str(home / "none") in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "kind: Config\n"])
def test_an_invalid_kubeconfig_is_an_error_without_a_traceback(
    home: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (home / "broken").write_text(content)
    assert main(["doctor", "--kubeconfig", str(home / "broken")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert "Traceback" not in printed


def test_an_unknown_command_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["heal"])
    assert exited.value.code == 2
    assert "usage: inferrun" in capsys.readouterr().err


def test_the_kubeconfig_is_found_as_in_kubectl(tmp_path: Path) -> None:
    usual = tmp_path / ".kube" / "config"
    assert find_kubeconfig(None, environment={}, home=tmp_path) is None
    usual.parent.mkdir()
    usual.touch()
    assert find_kubeconfig(None, environment={}, home=tmp_path) == usual
    assert find_kubeconfig(None, environment={"KUBECONFIG": "a:b"}, home=tmp_path) == Path("a:b")
    assert find_kubeconfig(Path("named"), environment={"KUBECONFIG": "a:b"}, home=tmp_path) == Path("named")


@pytest.mark.parametrize(
    "words", [["s", "--from", "a"], ["s", "--from", "a", "--to", "B"], ["S", "--from", "a", "--to", "b"]]
)
def test_invalid_arguments_of_copy_secret_are_usage_errors(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["copy-secret", *words])
    assert exited.value.code == 2
    assert "usage: inferrun copy-secret" in capsys.readouterr().err


def test_copy_secret_without_a_cluster_is_an_error_with_a_fix(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy-secret", "s", "--from", "a", "--to", "b"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: no cluster is selected\nfix:   ")

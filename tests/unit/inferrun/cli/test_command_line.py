"""The command line: what is wrong with it is one clear line, never a traceback."""

from pathlib import Path

import pytest

from inferrun.cli import main
from inferrun.cli.doctor import find_kubeconfig


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def test_without_a_cluster_it_says_how_to_name_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    assert "--kubeconfig" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--kubeconfig", str(home / "none")]) == 2
    assert str(home / "none") in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "kind: Config\n"])
def test_a_broken_kubeconfig_is_one_clear_line(home: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (home / "broken").write_text(content)
    assert main(["doctor", "--kubeconfig", str(home / "broken")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert "Traceback" not in told


def test_an_unknown_command_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["heal"])
    assert ended.value.code == 2
    assert "usage: inferrun" in capsys.readouterr().err


def test_the_kubeconfig_is_found_by_kubectls_rules(tmp_path: Path) -> None:
    usual = tmp_path / ".kube" / "config"
    assert find_kubeconfig(None, environment={}, home=tmp_path) is None
    usual.parent.mkdir()
    usual.touch()
    assert find_kubeconfig(None, environment={}, home=tmp_path) == usual
    assert find_kubeconfig(None, environment={"KUBECONFIG": "a:b"}, home=tmp_path) == Path("a:b")
    assert find_kubeconfig(Path("named"), environment={"KUBECONFIG": "a:b"}, home=tmp_path) == Path("named")

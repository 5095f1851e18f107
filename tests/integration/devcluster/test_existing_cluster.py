"""Uses the development cluster like a user's existing one: under another context name, with
programs from PATH."""

import json
import os
from pathlib import Path

import pytest

from tools.devcluster import existing_cluster
from tools.devcluster.errors import DevClusterError
from tools.devcluster.existing_cluster import Configured
from tools.devcluster.layout import Layout

pytestmark = pytest.mark.thorough

CONTEXT = "kind-existing"
PROGRAMS = ("kubectl", "helm")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """The layout of another checkout."""
    created = Layout(
        checkout=tmp_path / "checkout",
        state=tmp_path / "state",
        run=tmp_path / "run",
        cache=tmp_path / "cache",
    )
    created.client_dir.mkdir(parents=True)
    return created


@pytest.fixture
def configured(
    tmp_path: Path, kubeconfig: Path, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> Configured:
    """The user's environment: programs on PATH, and a kubeconfig in which the cluster has another
    name."""
    programs = tmp_path / "bin"
    programs.mkdir()
    real = Path(os.environ.get("INFERRUN_BIN", kubeconfig.parent / "bin"))
    for name in PROGRAMS:
        (programs / name).write_text(f'#!/bin/sh\nexec {real / name} "$@"\n')
        (programs / name).chmod(0o755)
    settings = json.loads(kubeconfig.read_text())
    settings["contexts"][0]["name"] = CONTEXT
    settings["current-context"] = ""
    renamed = tmp_path / "kubeconfig"
    renamed.write_text(json.dumps(settings))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("KUBECONFIG", str(renamed))
    return Configured(context=CONTEXT, temporal=temporal_address, namespace="default", ui="")


def test_the_cluster_is_used_under_its_context_name(
    configured: Configured, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    existing_cluster.attach(configured, layout)
    values = dict(line.split("=", 1) for line in layout.env.read_text().splitlines())
    assert values["INFERRUN_CONTEXT"] == CONTEXT
    assert values["TEMPORAL_ADDRESS"] == configured.temporal
    assert sorted(path.name for path in layout.programs.iterdir()) == sorted(PROGRAMS)
    assert "current-context: kind-existing" in layout.kubeconfig.read_text()
    assert layout.kubeconfig.stat().st_mode & 0o077 == 0


def test_detaching_removes_only_what_was_written(configured: Configured, layout: Layout) -> None:
    existing_cluster.attach(configured, layout)
    existing_cluster.detach(layout)
    assert not layout.env.exists()
    assert not layout.kubeconfig.exists()
    existing_cluster.attach(configured, layout)


def test_an_unknown_context_is_reported_with_a_command_that_lists_them(
    configured: Configured, layout: Layout
) -> None:
    other = Configured(
        context="kind-other", temporal=configured.temporal, namespace="default", ui=""
    )
    with pytest.raises(DevClusterError) as caught:
        existing_cluster.attach(other, layout)
    assert "kubectl config get-contexts" in caught.value.fix
    assert not layout.env.exists()

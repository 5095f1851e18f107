"""`inferrun migrate` as a command of its package."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[4]
PLUG_IN = CHECKOUT / "plugins" / "inferrun-krateo"


def run(site: Path, *words: str, command: str = "") -> subprocess.CompletedProcess[str]:
    """Run `inferrun` with the entry points of the package, or with another command, and without a
    cluster."""
    declared = tomllib.loads((PLUG_IN / "pyproject.toml").read_text())["project"]["entry-points"][
        "inferrun.commands"
    ]
    info = site / "inferrun_krateo-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: inferrun-krateo\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(
        f"[inferrun.commands]\nmigrate = {command or declared['migrate']}\n"
    )
    path = os.pathsep.join(map(str, (site, CHECKOUT, PLUG_IN)))
    return subprocess.run(
        [sys.executable, "-m", "inferrun.cli", *words],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "HOME": str(site)},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [([], "either --dry-run or --apply"), (["--dry-run"], "no cluster is selected")],
)
def test_the_command_is_found_where_its_package_is_installed(
    tmp_path: Path, words: list[str], problem: str
) -> None:
    (tmp_path / "config").write_text(
        "{kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: a, user: {}}]}"
    )
    selected = [] if words else ["--kubeconfig", str(tmp_path / "config")]
    done = run(tmp_path, "migrate", *words, *selected)
    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("command", ["none.such:migrate", "inferrun.cli.commands:none"])
def test_a_command_that_cannot_be_loaded_leaves_the_others(tmp_path: Path, command: str) -> None:
    done = run(tmp_path, "next", "@hourly", command=command)
    assert done.returncode == 0
    assert done.stderr.startswith(
        "warning: the command migrate of another package cannot be loaded: "
    )

"""The examples of the page on local runs, as users type them."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from inferrun.local.stub_model import StubModel
from tests.integration.local.conftest import REPOSITORY
from tests.unit.docs.pages import blocks

PAGE = REPOSITORY / "docs/how-to/local.md"
RECORDS = 150


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples and records for them."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    records = tmp_path / "data/in/iris.jsonl"
    records.parent.mkdir(parents=True)
    records.write_text(
        "".join(
            json.dumps({"custom_id": f"f{at}", "inputs": [at, 1, 1, 1]}) + "\n"
            for at in range(RECORDS)
        )
    )
    return tmp_path


def executed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_command_of_the_page_predicts(folder: Path, model: StubModel) -> None:
    text = PAGE.read_text()
    (line,) = (one for one in text.splitlines() if one.startswith("    inferrun local"))
    command = line.replace("http://127.0.0.1:8080", model.url)
    done = executed(folder, "-m", "inferrun.cli", *shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    assert f"{RECORDS} of {RECORDS} records predicted" in done.stdout


def test_the_program_and_the_test_of_the_page_work(folder: Path, model: StubModel) -> None:
    program, test = (
        text.replace("http://127.0.0.1:8080", model.url) for text in blocks(PAGE, "python")
    )
    (folder / "program.py").write_text(program)
    done = executed(folder, "program.py")
    assert done.returncode == 0, done.stderr
    assert "100" in done.stdout
    (folder / "conftest.py").write_text('pytest_plugins = ["inferrun.local.pytest_plugin"]\n')
    (folder / "test_config.py").write_text(test)
    done = executed(folder, "-m", "pytest", "-q", "test_config.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr

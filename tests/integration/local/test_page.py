"""The examples of the page on local runs, as users type them."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

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


async def test_the_program_of_the_page_works_in_a_notebook(
    folder: Path, model: StubModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel has an event loop that is running, and its interrupt is that of Ctrl-C: the run is
    stopped, and the same cell goes on."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    program = blocks(PAGE, "python")[0].replace("http://127.0.0.1:8080", model.url)
    with StubModel(predict=slowly).served() as slow_model:
        whole = program.replace("limit=100", "limit=150").replace(model.url, slow_model.url)
        await execute_and_interrupt(folder, program, whole, slow_model)


def slowly(row: Sequence[float]) -> float:
    time.sleep(0.02)
    return sum(row)


async def execute_and_interrupt(folder: Path, first: str, second: str, model: StubModel) -> None:
    """Execute the first program, interrupt the second one midway, and execute it again."""
    cells = [nbformat.v4.new_code_cell(text) for text in (first, second, second)]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources=resources, allow_errors=True
    )
    async with client.async_setup_kernel():
        await client.async_execute_cell(cells[0], 0)
        assert "completed=100 failed=0" in outputs(cells[0])
        async with asyncio.TaskGroup() as group:
            group.create_task(client.async_execute_cell(cells[1], 1))
            async with asyncio.timeout(60):
                while not model.requests:  # noqa: ASYNC110 -- the server has no event
                    await asyncio.sleep(0.1)
            assert client.km is not None
            await client.km.interrupt_kernel()  # type: ignore[misc]  # typed as a synchronous one
        assert "Interrupted" in outputs(cells[1])
        await client.async_execute_cell(cells[2], 2)
        assert "completed=150 failed=0" in outputs(cells[2])


def outputs(cell: nbformat.NotebookNode) -> str:
    return "\n".join(
        str(one.get("text") or one.get("evalue") or one.get("data")) + str(one.get("ename", ""))
        for one in cell.outputs
    )

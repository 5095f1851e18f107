"""A third-party package in a whole run: the runner finds its stores by their entry points."""

import ast
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.installing import SOURCE
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, counting_model


@pytest.fixture
async def model() -> AsyncIterator[CountingModel]:
    async with counting_model() as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, model: CountingModel) -> Machine:
    kserve = {"modelName": "sum", "modelUrl": model.url}
    contract = {
        "jobId": "uid",
        "jobName": "inf-sqlite",
        "kserve": kserve,
        "input": {"sqlite": {"path": "data.db", "table": "given"}},
        "output": {"sqlite": {"path": "data.db"}},
    }
    return Machine(tmp_path / "run", contract=contract)


async def test_a_run_reads_and_writes_through_foreign_stores(machine: Machine, site: Path) -> None:
    connection = sqlite3.connect(machine.input / "data.db")
    connection.execute("create table given (id integer primary key, a real, b real)")
    connection.executemany("insert into given values (?, ?, ?)", [(place, place, 0.5) for place in range(200)])
    connection.commit()
    connection.close()
    ended = await machine.process(PYTHONPATH=str(site))
    assert (ended.code, ended.message) == (0, "200 of 200 records predicted"), ended.stderr
    assert ended.result.delivery == "ExactlyOnce"
    connection = sqlite3.connect(machine.output / "data.db")
    stored = connection.execute("select value from prediction order by place").fetchall()
    connection.close()
    assert [float(value) for (value,) in stored] == [place + 0.5 for place in range(200)]


async def test_without_the_package_its_label_is_rejected(machine: Machine) -> None:
    ended = await machine.process()
    assert ended.code == 2
    assert ended.message == "input.sqlite: unknown name 'sqlite'; allowed: file, http, krateo, s3, sql"


def test_the_package_imports_nothing_of_ours_except_the_plugin_api() -> None:
    modules: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                modules.add(node.module or ".")
            elif isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
    ours = {"inferrun", "runner", "tests", "workflows", "activities", "worker", "operator_shim", "tools"}
    assert {module for module in modules if module.partition(".")[0] in ours} == {"inferrun.plugins"}

"""Third-party packages in a whole run: the runner finds their stores and their protocol by their
entry points."""

import ast
import json
import sqlite3
from collections.abc import AsyncIterator
from itertools import chain
from pathlib import Path

import pytest

from tests.conformance.installing import SOURCES
from tests.conformance.protocol_worlds import lines
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
    connection.executemany(
        "insert into given values (?, ?, ?)", [(place, place, 0.5) for place in range(200)]
    )
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
    assert (
        ended.message
        == "input.sqlite: unknown name 'sqlite'; allowed: azure, delta, file, gcs, http, iceberg, krateo, run, s3, sql"
    )


async def test_a_run_sends_its_records_with_a_foreign_protocol(tmp_path: Path, site: Path) -> None:
    async with lines() as world:
        contract = {
            "jobId": "uid",
            "jobName": "inf-lines",
            "kserve": {
                "modelName": "sum",
                "modelUrl": world.server.url,
                "protocolVersion": "lines",
            },
            "input": {"file": {"claimName": "given", "path": "rows.jsonl"}},
            "output": {"file": {"claimName": "made", "path": "out"}},
        }
        machine = Machine(tmp_path / "run", contract=contract)
        (machine.input / "rows.jsonl").write_text(
            "".join(f"[{index}, 0.5]\n" for index in range(200))
        )
        ended = await machine.process(PYTHONPATH=str(site), INFERRUN_BATCH_ROWS="50")
        assert (ended.code, ended.message) == (0, "200 of 200 records predicted"), ended.stderr
        assert len(world.server.received) == 4
        (part,) = (machine.output / "out" / "inf-lines" / "predictions").iterdir()
        predictions = [json.loads(line)["prediction"] for line in part.read_text().splitlines()]
        assert predictions == [index + 0.5 for index in range(200)]
        without = await machine.process()
    assert without.code == 2
    assert (
        "kserve.protocolVersion: unknown name 'lines'; allowed: grpc-v2, http, openai, v1, v2"
        in without.message
    )


def test_the_packages_import_nothing_of_ours_except_the_plugin_api() -> None:
    modules: set[str] = set()
    plugins = [Path(__file__).parents[2] / "plugins"]
    for path in chain.from_iterable(source.rglob("*.py") for source in [*SOURCES, *plugins]):
        if path.stem in ("migrate", "migration"):  # a command, which is a user of the library
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                modules.add(node.module or ".")
            elif isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
    ours = {
        "inferrun",
        "inferrun_runner",
        "tests",
        "workflows",
        "activities",
        "worker",
        "operator_shim",
        "control",
        "tools",
    }
    found = {module for module in modules if module.partition(".")[0] in ours}
    api = ("http", "limits", "rows", "storage", "testing")
    declared = {"inferrun.stores.krateo"}  # there, because the CRD has its members
    assert found == {"inferrun.plugins", *(f"inferrun.plugins.{name}" for name in api)} | declared

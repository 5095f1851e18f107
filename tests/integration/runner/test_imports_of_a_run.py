"""A run imports only the stores, protocols and formats that its contract names: imports are most of the CPU time of a small run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.servers import CountingModel, Handler

OWNERS = {
    "grpc": {"grpc-v2"},
    "psycopg": {"sql"},
    "runner.protocols.v1": {"v1"},
    "obstore": {"s3"},
    "pyarrow": {"parquet", "arrow"},
    "runner.stores.s3": {"s3"},
    "runner.stores.krateo": {"krateo"},
    "runner.protocols.openai": {"openai"},
    "runner.formats.parquet": {"parquet"},
    "runner.formats.arrow": {"arrow"},
    "runner.stores.sql": {"sql"},
    "runner.stores.http": {"http"},
}
"""Packages, and the stores, protocols and formats that may import them."""


async def imports_of(machine: Machine) -> tuple[Ended, set[str]]:
    """Run the program, and return the modules that import statements loaded, which includes the first of each package."""
    started = await machine.start(environment={"PYTHONPROFILEIMPORTTIME": "1"})
    ended = await started.end()
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return ended, {line.rpartition("|")[2].strip() for line in lines}


def unexpected(modules: set[str], used: set[str], owners: Mapping[str, set[str]] = OWNERS) -> set[str]:
    """Return the modules that belong to something unused."""
    packages = {package for package, names in owners.items() if not names & used}
    return {name for name in modules if any(name == one or name.startswith(f"{one}.") for one in packages)}


async def test_a_run_with_files_imports_nothing_of_other_stores(file: Machine, model: CountingModel) -> None:
    (file.input / "data" / "rows.jsonl").write_text("[1.0]\n")
    ended, modules = await imports_of(file)
    assert ended.code == 0, ended.stderr
    assert {"runner.stores.file.claim", "runner.protocols.v2.inputs", "runner.formats.jsonl.line_ranges"} <= modules
    assert unexpected(modules, {"file", "v2", "jsonl"}) == set()
    assert not {name for name in modules if name.startswith("runner.shards.")}


async def test_a_run_with_a_data_handler_imports_nothing_of_other_stores(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = [[1.0]]
    ended, modules = await imports_of(krateo)
    assert ended.code == 0, ended.stderr
    assert "runner.stores.krateo.spec" in modules
    assert unexpected(modules, {"krateo", "v2", "jsonl"}) == set()
    assert not {name for name in modules if name.startswith("runner.stores.file.")} - {"runner.stores.file.local_files"}


@pytest.mark.parametrize("wrong", [{}, {"file": {"claimName": "a"}}], ids=["no label", "no path"])
async def test_a_rejected_contract_imports_no_store(tmp_path: Path, wrong: dict[str, Any]) -> None:  # Any: JSON
    machine = Machine(tmp_path / "run", contract={"jobId": "uid", "jobName": "a", "input": wrong, "output": wrong})
    ended, modules = await imports_of(machine)
    assert ended.code == 2, ended.stderr
    assert unexpected(modules, set()) == set()

"""What the runner's process imports: neither Temporal nor Kubernetes, and nothing that the run does
not use."""

import json
import subprocess
import sys

import pytest

FORBIDDEN = {
    "temporalio",
    "kubernetes",
    "httpx",
    "requests",
    "opentelemetry",
    "workflows",
    "activities",
    "worker",
    "operator_shim",
    "control",
}

LOAD_EVERYTHING = """
import importlib, json, pkgutil, sys
import inferrun_runner, inferrun_runner.__main__
from inferrun_runner.registry import BUILT_IN
for module in pkgutil.walk_packages(inferrun_runner.__path__, "inferrun_runner."):
    importlib.import_module(module.name)
loaded = [point.load() for point in BUILT_IN]
print(json.dumps({"modules": sorted(sys.modules), "loaded": len(loaded)}))
"""


def test_a_fresh_runner_imports_nothing_of_the_control_plane() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EVERYTHING], capture_output=True, text=True, check=True
    )
    modules = set(json.loads(done.stdout)["modules"])
    packages = {name.partition(".")[0] for name in modules}
    assert FORBIDDEN.isdisjoint(packages)
    assert "inferrun.kube" not in modules
    assert {"aiohttp", "uvloop", "orjson", "pydantic"} <= packages


FILES = (
    "inferrun_runner.__main__",
    "inferrun_runner.stores.file.input",
    "inferrun_runner.stores.file.output",
    "inferrun.formats.jsonl.format",
)
HEAVY = {"grpc", "obstore", "psycopg", "pyarrow"}
"""Packages that only some stores, protocols and formats need. Each takes from 50 to 500 ms of CPU
time to import."""


@pytest.mark.parametrize(
    "imported",
    [
        *((*FILES, f"inferrun_runner.protocols.{name}.rest") for name in ("v2", "v1", "openai")),
        ("inferrun_runner.warm_up",),
    ],
)
def test_a_run_from_and_to_files_and_the_warm_up_import_no_client_of_a_store(
    imported: tuple[str, ...],
) -> None:
    code = f"import sys, json, {', '.join(imported)}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint({name.partition(".")[0] for name in json.loads(done.stdout)})

"""What the runner's process imports: neither Temporal nor Kubernetes, and no HTTP client except aiohttp."""

import json
import subprocess
import sys

FORBIDDEN = {"temporalio", "kubernetes", "httpx", "requests", "workflows", "activities", "worker", "operator_shim"}

LOAD_EVERYTHING = """
import importlib, json, pkgutil, sys
import runner, runner.__main__
from runner.registry import BUILT_IN
for module in pkgutil.walk_packages(runner.__path__, "runner."):
    importlib.import_module(module.name)
loaded = [point.load() for point in BUILT_IN]
print(json.dumps({"modules": sorted(sys.modules), "loaded": len(loaded)}))
"""


def test_a_fresh_runner_imports_nothing_of_the_control_plane() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD_EVERYTHING], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout)["modules"])
    packages = {name.partition(".")[0] for name in modules}
    assert FORBIDDEN.isdisjoint(packages)
    assert "inferrun.kube" not in modules
    assert {"aiohttp", "uvloop", "orjson", "pydantic"} <= packages

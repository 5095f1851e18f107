"""What the runner's process loads: neither Temporal nor Kubernetes, and no HTTP client but the fast one."""

import json
import subprocess
import sys

FORBIDDEN = {"temporalio", "kubernetes", "httpx", "requests", "workflows", "activities", "worker", "operator_shim"}

LOAD_EVERYTHING = """
import importlib, json, pkgutil, sys
from importlib.metadata import entry_points
import runner, runner.__main__
for module in pkgutil.walk_packages(runner.__path__, "runner."):
    importlib.import_module(module.name)
groups = ["inferrun.stores.input", "inferrun.stores.output", "inferrun.protocols", "inferrun.formats"]
loaded = {group: sorted(p.name for p in entry_points(group=group) if p.load() and p.dist.name == "inferrun")
          for group in groups}
print(json.dumps({"modules": sorted({name.partition(".")[0] for name in sys.modules}), "points": loaded,
                  "kube": "inferrun.kube" in sys.modules}))
"""


def test_a_fresh_runner_loads_nothing_of_the_control_side() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD_EVERYTHING], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    assert FORBIDDEN.isdisjoint(seen["modules"])
    assert not seen["kube"]
    assert {"aiohttp", "uvloop", "orjson", "pydantic"} <= set(seen["modules"])


def test_everything_built_in_is_found_by_its_entry_point() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD_EVERYTHING], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["points"] == {
        "inferrun.stores.input": ["file", "krateo"],
        "inferrun.stores.output": ["file", "krateo"],
        "inferrun.protocols": ["v2"],
        "inferrun.formats": ["jsonl"],
    }

"""Pure modules: what the workflow sandbox shares with the process, and what the control side
decides.

The import contracts in pyproject.toml name packages; this test also finds calls that read the
clock, and submodules such as temporalio.client, which an import contract cannot name.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.sandbox import PASSED_THROUGH

ROOT = Path(__file__).parents[2]
IMPURE_IMPORTS = (
    "aiohttp",
    "asyncio",
    "glob",
    "http",
    "httpx",
    "inferrun.kube.client",
    "control.informer",
    "inferrun.kube.runs",
    "inferrun.timestamps.utc_now",
    "kubernetes",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "shutil",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "temporalio.client",
    "temporalio.service",
    "temporalio.worker",
    "threading",
    "time",
    "urllib.request",
    "uuid",
)
ALLOWED_IN_DEFINITIONS = ("import of asyncio", "now()")
"""What the definitions of workflows use in addition: asyncio, which Temporal makes deterministic,
and `workflow.now()`."""
CLOCK_CALLS = frozenset(
    {"now", "utcnow", "today", "monotonic", "perf_counter", "time_ns", "utc_now"}
)
BUILTINS = frozenset({"open", "input", "print"})


PURE_ROOMS = ("launches", "runs", "schedules", "trust")
"""Of the control side: what decides, and nothing that acts."""


def says_pure(source: str) -> bool:
    return re.search(r"\bPure\b", ast.get_docstring(ast.parse(source)) or "") is not None


def pure_modules() -> list[Path]:
    found = {path for room in PURE_ROOMS for path in (ROOT / "control" / room).rglob("*.py")}
    found |= set((ROOT / "inferrun" / "launches").rglob("*.py"))
    for folder in ("control", "operator_shim"):
        found |= {path for path in (ROOT / folder).rglob("*.py") if says_pure(path.read_text())}
    for name in PASSED_THROUGH:
        place = ROOT.joinpath(*name.split("."))
        found |= set(place.rglob("*.py")) if place.is_dir() else {place.with_suffix(".py")}
    return sorted(found)


def workflow_definitions() -> list[Path]:
    """The modules of workflow code that are not pure, because they call Temporal."""
    return sorted(set((ROOT / "workflows").glob("*.py")) - set(pure_modules()))


def impurities(source: str) -> Iterator[str]:
    """What in a module's source is not pure, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call):
            names = []
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            is_builtin = isinstance(node.func, ast.Name) and called in BUILTINS
            if called in CLOCK_CALLS or is_builtin:
                yield f"line {node.lineno}: {called}()"
        else:
            continue
        for name in names:
            if any(name == banned or name.startswith(f"{banned}.") for banned in IMPURE_IMPORTS):
                yield f"line {node.lineno}: import of {name}"


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pure_module_reads_neither_clock_nor_environment_and_does_no_io(path: Path) -> None:
    assert list(impurities(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", workflow_definitions(), ids=lambda path: path.name)
def test_a_workflow_definition_is_deterministic(path: Path) -> None:
    """The deployed worker executes them without the sandbox."""
    source = path.read_text(encoding="utf-8")
    found = [text.partition(": ")[2] for text in impurities(source)]
    assert [text for text in found if not text.startswith(ALLOWED_IN_DEFINITIONS)] == []
    assert source.count(".now(") == source.count("workflow.now(")


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime\nthen = datetime.now()",
        "from inferrun.timestamps import utc_now",
        "import random",
        "from os import environ",
        "from temporalio.client import Client",
        "import urllib.request",
        "text = open('/etc/hostname').read()",
    ],
)
def test_what_is_not_pure_is_found(source: str) -> None:
    assert list(impurities(source))

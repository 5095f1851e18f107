"""Every package that the code imports is declared for that code in pyproject.toml, and the lock
files agree with it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
RUNNER = tomllib.loads((CHECKOUT / "inferrun_runner/pyproject.toml").read_text())
OURS = {
    "inferrun",
    "workflows",
    "activities",
    "worker",
    "operator_shim",
    "control",
    "inferrun_runner",
}
DISTRIBUTIONS = {
    "PIL": "pillow",
    "adbc_driver_manager": "adbc-driver-manager",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
    "google": "protobuf",
    "prometheus_client": "prometheus-client",
    "grpc": "grpcio",
    "opentelemetry": "opentelemetry-sdk",
    "pydantic_core": "pydantic",
    "yaml": "pyyaml",
}
"""The distribution that provides an import name, if the two differ; protobuf is part of
temporalio's own interface."""

NOTEBOOK = {"IPython"}
"""What is imported only in a notebook, which provides it."""

LOCKED_WITH_LIBRARY = ("control", "runner", "dev")
LOCKED_ALONE = ("build", "bootstrap", "kserve-server")


def group(name: str) -> Iterator[Requirement]:
    for entry in PROJECT["dependency-groups"][name]:
        if isinstance(entry, dict):
            yield from group(entry["include-group"])
        else:
            yield Requirement(entry)


def runner() -> Iterator[Requirement]:
    yield from map(Requirement, RUNNER["project"]["dependencies"])


def library(*extras: str) -> Iterator[Requirement]:
    yield from map(Requirement, PROJECT["project"]["dependencies"])
    for extra in extras:
        for requirement in map(Requirement, EXTRAS[extra]):
            if requirement.name == PROJECT["project"]["name"]:  # an extra that contains others
                yield from library(*requirement.extras)
            else:
                yield requirement


def names(requirements: Iterator[Requirement]) -> set[str]:
    found: set[str] = {canonicalize_name(requirement.name) for requirement in requirements}
    # Temporal's messages are protobuf's
    return found | {"protobuf"} if "temporalio" in found else found


def imported(package: str) -> set[str]:
    """The distributions that a package or module imports, apart from ours and the standard
    library."""
    root = CHECKOUT / package
    files = root.rglob("*.py") if root.is_dir() else [root.with_suffix(".py")]
    found = (
        {name.split(".")[0] for path in files for name in imports_of(path)}
        - OURS
        - NOTEBOOK
        - sys.stdlib_module_names
    )
    return {DISTRIBUTIONS.get(name, name) for name in found}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


@pytest.mark.parametrize(
    "package", ["workflows", "activities", "worker", "operator_shim", "control"]
)
def test_the_control_side_declares_what_it_imports(package: str) -> None:
    assert imported(package) <= names(group("control")) | names(library())


def test_the_runner_declares_what_it_imports() -> None:
    assert imported("inferrun_runner") <= names(runner()) | names(library())


def test_the_library_declares_what_it_imports() -> None:
    declared = names(library(*EXTRAS)) | {"aiohttp"}
    assert imported("inferrun") <= declared


@pytest.mark.parametrize(
    ("module", "extras"),
    [
        ("inferrun/resources", ("validation",)),
        ("inferrun/submission", ()),
        ("inferrun/client", ("client",)),
        ("inferrun/temporal", ("codec",)),
        ("inferrun/kube", ("client",)),
        ("inferrun/cli", ("cli",)),
        ("inferrun/plugins/testing", ("testing", "columns")),
    ],
)
def test_each_extra_brings_what_its_part_of_the_library_imports(
    module: str, extras: tuple[str, ...]
) -> None:
    assert imported(module) <= names(library(*extras))


def test_the_product_does_not_import_the_tests_for_packages_of_others() -> None:
    files = (path for package in (*OURS, "plugins") for path in (CHECKOUT / package).rglob("*.py"))
    found = {
        name
        for path in files
        if "testing" not in path.parts and path.name != "pytest_plugin.py"
        for name in imports_of(path)
        if name.startswith(("pytest", "inferrun.plugins.testing"))
    }
    assert not found


def test_a_dependency_that_is_declared_twice_has_one_range() -> None:
    ranges: dict[str, set[str]] = {}
    for requirement in [*library(*EXTRAS), *runner(), *group("dev"), *group("build")]:
        ranges.setdefault(requirement.name, set()).add(str(requirement.specifier))
    assert {name: found for name, found in ranges.items() if len(found) > 1} == {}


@pytest.mark.parametrize("lock", [*LOCKED_WITH_LIBRARY, *LOCKED_ALONE])
def test_a_lock_file_satisfies_what_is_declared(lock: str) -> None:
    wanted = [
        *(group(lock) if lock != "runner" else ()),
        *(library() if lock in LOCKED_WITH_LIBRARY else ()),
    ]
    wanted += [one for one in runner() if lock in ("runner", "dev") and one.name != "inferrun"]
    text = (CHECKOUT / f"requirements/{lock}.txt").read_text()
    locked = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)
    }
    outdated = [
        str(item)
        for item in wanted
        if not item.specifier.contains(locked.get(canonicalize_name(item.name), "0"))
    ]
    assert outdated == [], "run make lock"


def test_every_package_in_an_image_is_documented_with_its_reason() -> None:
    page = (CHECKOUT / "docs/reference/dependencies.md").read_text()
    documented = {
        name
        for cell in re.findall(r"^\| ([^|]+) \|", page, re.M)
        for name in re.split(r",\s*", cell)
    }
    locks = [
        (CHECKOUT / f"requirements/{image}.txt").read_text() for image in ("control", "runner")
    ]
    locked = {name for text in locks for name in re.findall(r"^([\w.-]+)==", text, re.M)}
    assert documented - {"package", "---"} == locked


def test_a_lock_file_names_no_registry() -> None:
    for path in (CHECKOUT / "requirements").glob("*.txt"):
        assert "://" not in path.read_text()


def test_what_builds_the_project_is_what_is_locked_for_building() -> None:
    assert PROJECT["build-system"]["requires"] == PROJECT["dependency-groups"]["build"]


def test_every_declared_dependency_has_its_reason_in_a_comment() -> None:
    declarations = ("pyproject.toml", "inferrun_runner/pyproject.toml")
    lines = [line for name in declarations for line in (CHECKOUT / name).read_text().splitlines()]
    tables = ("[project]", "[project.optional-dependencies]", "[dependency-groups]")
    table, declared = "", []
    for line in lines:
        table = line if line.startswith("[") else table
        is_entry = re.match(r'\s+"[A-Za-z]', line) or re.match(r'\w+ = \["', line)
        if table in tables and is_entry and not line.startswith("license"):
            declared.append(line)
    assert len(declared) >= 30
    assert [line for line in declared if not re.search(r"#\s+\S+", line)] == []

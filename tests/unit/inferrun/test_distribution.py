"""What `pip install inferrun` puts into an environment, and whether it works there without anything
else of the checkout."""

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Set
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conformance.installing import install
from tests.unit.docs.pages import STORE, blocks

CHECKOUT = Path(__file__).parents[3]
PROGRAMS = (
    "workflows",
    "activities",
    "worker",
    "operator_shim",
    "control",
    "inferrun_runner",
    "tests",
    "deploy",
    "tools",
)

IMPORT_EVERY_EXPORT = """
import importlib.util, sys
import inferrun
assert "pydantic" not in sys.modules, "importing inferrun imports its models"
sys.path.append(sys.argv[1])  # the dependencies, which are installed beside this checkout
for name in inferrun.__all__:
    getattr(inferrun, name)
print(inferrun.__file__)
print(*(name for name in sys.argv[2:] if importlib.util.find_spec(name)))
"""

RUN_COMMAND = """
import sys
sys.path[:0] = sys.argv[1:]
from inferrun.cli import main
sys.exit(main(["--version"]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy because building leaves files behind."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    for name in (
        "inferrun",
        "workflows",
        "activities",
        "worker",
        "operator_shim",
        "control",
        "inferrun_runner",
    ):
        shutil.copytree(
            CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return built_wheel(source, target)


def built_wheel(source: Path, target: Path) -> Path:
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, target], cwd=source, check=True, capture_output=True
    )
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which only the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
    python = str(folder / "bin/python")
    install = [python, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return Path(python)


def run(python: Path, *arguments: str) -> list[str]:
    # -I keeps the working directory, the user's packages and PYTHON* variables out.
    command = [str(python), "-I", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_the_wheel_contains_only_the_library_and_declares_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"inferrun", "inferrun-0.1.0.dist-info"}
    assert "inferrun/py.typed" in names


def test_the_wheel_of_the_runner_contains_all_of_it_and_nothing_else(tmp_path: Path) -> None:
    tree = CHECKOUT / "inferrun_runner"
    source = shutil.copytree(
        tree, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__")
    )
    with zipfile.ZipFile(built_wheel(source, tmp_path)) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {
        f"inferrun_runner/{one.relative_to(tree)}"
        for one in tree.rglob("*.py*")
        if one.suffix in (".py", ".pyi")
    }


def test_the_installed_library_imports_without_the_checkout(python: Path) -> None:
    packages = sysconfig.get_path("purelib")
    location, *programs = run(python, "-c", IMPORT_EVERY_EXPORT, packages, *PROGRAMS)
    assert Path(location).is_relative_to(python.parents[1])
    assert programs == [""]


def test_the_installed_command_runs_with_its_extra_and_otherwise_says_how_to_install_it(
    python: Path,
) -> None:
    assert run(python, "-c", RUN_COMMAND, sysconfig.get_path("purelib")) == ["inferrun 0.1.0"]
    for name in ("inferrun", "kubectl-inferrun"):
        alone = subprocess.run(
            [python.parent / name, "--version"], check=False, capture_output=True, text=True
        )
        assert alone.returncode == 2
        assert "pip install 'inferrun[cli]'" in alone.stderr


def required(given: Iterable[str], extras: Set[str]) -> set[str]:
    """The distributions that an installer would install for these requirements of a package with
    extras."""
    found = set[str]()
    for one in map(Requirement, given):
        if one.marker is None or any(
            one.marker.evaluate({"extra": extra}) for extra in extras or {""}
        ):
            found |= {one.name} | required(distribution(one.name).requires or (), one.extras)
    return found


def python_for_tests(wheel: Path, folder: Path, *extras: str) -> Path:
    """The interpreter of an environment with the wheel, what these extras require, and the packages
    of others."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (info,) = site.glob("inferrun-*.dist-info")
    wanted = map(distribution, required(Distribution.at(info).requires or (), set(extras)))
    for file in (file for one in wanted for file in one.files or () if ".." not in file.parts):
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).symlink_to(file.locate())
    install(site)
    return folder / "bin" / "python"


def passed(python: Path, tests: Path) -> int:
    """Execute tests, and return their number if all pass."""
    *_, verdict = run(python, "-m", "pytest", "-q", str(tests))
    found = re.fullmatch(r"(\d+) passed in .*", verdict)
    assert found, verdict
    return int(found[1])


def test_a_package_with_a_store_passes_the_tests_of_the_page_without_the_checkout(
    wheel: Path, tmp_path: Path
) -> None:
    (given,) = (text for text in blocks(STORE, "python") if "inferrun.plugins.testing" in text)
    assert len([line for line in given.splitlines() if line]) < 24
    (tmp_path / "test_stores.py").write_text(given)
    assert (
        passed(
            python_for_tests(wheel, tmp_path / "environment", "testing"),
            tmp_path / "test_stores.py",
        )
        > 20
    )


def test_a_package_with_a_protocol_passes_its_tests_without_the_checkout(
    wheel: Path, tmp_path: Path
) -> None:
    tests = Path(
        shutil.copy(
            CHECKOUT / "tests/conformance/foreign_protocol/lines_tests.py",
            tmp_path / "test_lines.py",
        )
    )
    assert (
        passed(python_for_tests(wheel, tmp_path / "environment", "testing", "columns"), tests) > 15
    )

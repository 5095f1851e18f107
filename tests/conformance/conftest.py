"""The foreign package is on the path of every conformance test, and of those alone."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.installing import install
from tests.conformance.worlds import Disk


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the foreign package installed in it."""
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


@pytest.fixture(autouse=True)
def installed(site: Path) -> Iterator[None]:
    """The foreign package can be imported and its entry points are found."""
    sys.path.append(str(site))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(site))
    importlib.invalidate_caches()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """A disk of the test's own."""
    return Disk(tmp_path)

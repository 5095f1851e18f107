"""Puts the foreign package on the path of every conformance test."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.installing import install
from tests.conformance.worlds import Disk


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the foreign package is installed."""
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


@pytest.fixture(autouse=True)
def installed(site: Path) -> Iterator[None]:
    """Make the foreign package and its entry points importable."""
    sys.path.append(str(site))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(site))
    importlib.invalidate_caches()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """The folders of a Pod, for one test."""
    return Disk(tmp_path)

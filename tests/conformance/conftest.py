"""Puts the foreign package on the path of every conformance test."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.installing import install
from tests.conformance.worlds import Disk
from tests.integration.runner.clouds import Clouds, clouds
from tests.integration.runner.pgbouncer import pgbouncer
from tests.integration.runner.postgres_server import Postgres, postgres_server


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[str], Postgres]]:
    """Start PostgreSQL, and a pooler of this mode in front of it, when it is first needed."""
    with ExitStack() as stack:

        @cache
        def start(pool: str) -> Postgres:
            return stack.enter_context(pgbouncer(start(""), pool) if pool else postgres_server())

        yield start


@pytest.fixture(scope="session", name="clouds")
def started_clouds() -> Iterator[Clouds]:
    """Emulators of object stores."""
    with clouds() as started:
        yield started


@pytest.fixture
def disk(tmp_path: Path, postgres: Callable[[str], Postgres], clouds: Clouds) -> Disk:
    """The folders of a Pod, for one test."""
    return Disk(tmp_path, postgres, clouds)

"""Fixtures with which teams test their configs: in a conftest.py,
`pytest_plugins = ["inferrun.local.pytest_plugin"]`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from inferrun.local import LocalResult, run
from inferrun.local.request import Source
from inferrun.local.stub_model import StubModel


class RunLocally(Protocol):
    """`inferrun.local.run`, in the folder of a test."""

    def __call__(self, *sources: Source, **options: Any) -> LocalResult:  # Any: those of `run`
        """Execute a run. Raises RunFailed."""


@pytest.fixture
def inferrun_local(tmp_path: Path) -> RunLocally:
    """Executes runs as `inferrun.local.run` does; what it knows of them is in the test's folder."""

    def execute(*sources: Source, **options: Any) -> LocalResult:  # Any: those of `run`
        return run(*sources, **{"state": tmp_path / ".inferrun", **options})

    return execute


@pytest.fixture
def inferrun_stub_model() -> Iterator[StubModel]:
    """A model server that answers with the sum of a record's numbers, or repeats a prompt. Another
    one is `StubModel(predict=…, answer=…).served()`."""
    with StubModel().served() as model:
        yield model

"""The Docker engine of the tests: the one that is there is used and left alone, one that cannot be had is told."""

from pathlib import Path

import pytest

from tests.integration.data_handler.containers import Database
from tests.integration.data_handler.engine import NoEngine, docker_engine


def test_an_engine_that_is_there_is_used_and_left_running(engine: str, database: Database) -> None:
    with docker_engine({}) as address:
        assert address == engine
    assert database.run("select 1") == [["1"]]


def test_an_engine_that_is_named_and_does_not_answer_is_told_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(NoEngine) as caught, docker_engine({}):
        pytest.fail("there was an engine")
    assert str(caught.value).splitlines() == [
        f"error: no Docker engine responds at DOCKER_HOST=unix://{tmp_path}/docker.sock",
        "fix:   start it, or unset DOCKER_HOST",
    ]

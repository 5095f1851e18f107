"""The Docker engine of the tests: an existing one is used and kept running; if none is available, the error says why."""

from pathlib import Path

import pytest

from tests.integration.data_handler.containers import Database
from tests.integration.data_handler.engine import EngineUnavailable, docker_engine

pytestmark = pytest.mark.thorough


def test_an_existing_engine_is_used_and_kept_running(engine: str, database: Database) -> None:
    with docker_engine({}) as address:
        assert address == engine
    assert database.run("select 1") == [["1"]]


def test_a_configured_engine_that_does_not_respond_is_reported_with_a_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(EngineUnavailable) as caught, docker_engine({}):
        pytest.fail("an engine was available")
    assert str(caught.value).splitlines() == [
        f"error: no Docker engine responds at DOCKER_HOST=unix://{tmp_path}/docker.sock",
        "fix:   start it, or unset DOCKER_HOST",
    ]

"""`inferrun.local.run` in a program, and the fixtures for tests of others."""

from pathlib import Path

import pytest

from inferrun.client.errors import InvalidRequest, RunFailed
from inferrun.local import run
from inferrun.local.pytest_plugin import RunLocally, inferrun_local, inferrun_stub_model  # noqa: F401
from inferrun.local.stub_model import StubModel
from inferrun.reasons import Phase
from tests.integration.local.conftest import ROWS, Place


def test_the_result_is_that_of_the_client_with_the_results(place: Place) -> None:
    result = run(
        place.config(), place.run(), claims={"data": place.data}, state=place.folder / "state"
    )
    assert result.phase is Phase.SUCCEEDED
    assert result.records is not None
    assert result.records.completed == ROWS
    frame = result.results().to_pandas()
    assert list(frame["prediction"]) == [index + 0.5 for index in range(ROWS)]


def test_a_run_that_fails_raises_what_the_client_raises(place: Place) -> None:
    config = place.config(
        kserve={"modelName": "stub", "modelUrl": "http://127.0.0.1:9", "protocolVersion": "v2"}
    )
    with pytest.raises(RunFailed, match="Connection refused") as failure:
        run(config, place.run(), claims={"data": place.data}, state=place.folder / "state")
    assert failure.value.result.exit_code == 4
    with pytest.raises(InvalidRequest, match=r"there must be one InferenceRun"):
        run(place.run(), claims={"data": place.data})


def test_the_fixtures_test_a_config(
    inferrun_local: RunLocally,  # noqa: F811
    inferrun_stub_model: StubModel,  # noqa: F811
    place: Place,
    tmp_path: Path,
) -> None:
    result = inferrun_local(
        place.config(),
        claims={"data": place.data},
        model_url=inferrun_stub_model.url,
        limit=3,
    )
    assert [row["prediction"] for row in result.results()] == [0.5, 1.5, 2.5]
    assert len(inferrun_stub_model.requests) == 1
    assert not place.model.requests
    assert (tmp_path / ".inferrun").is_dir()

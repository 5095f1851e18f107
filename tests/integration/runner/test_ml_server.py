"""The protocols with a real MLServer: REST and gRPC give the same predictions for the same records."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.runner.ml_server import MlServer, ml_server
from tests.integration.runner.pods import Machine

pytestmark = pytest.mark.thorough

ROWS = [
    [4.0 + index % 40 / 10, 2.0 + index % 20 / 10, 1.0 + index % 60 / 10, 0.1 + index % 24 / 10] for index in range(500)
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MlServer]:
    async with ml_server(tmp_path_factory.mktemp("mlserver")) as server:
        yield server


def machine_of(folder: Path, url: str, protocol: str) -> Machine:
    kserve = {"modelName": "sklearn-iris", "modelUrl": url, "protocolVersion": protocol}
    contract = {"jobId": "uid", "jobName": "inf-iris", "kserve": kserve}
    machine = Machine(folder, contract=contract)
    machine.contract["input"] = {"file": {"claimName": "given", "path": "rows.jsonl"}}
    machine.contract["output"] = {"file": {"claimName": "made", "path": "results"}}
    (machine.input / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return machine


def predictions_of(machine: Machine) -> list[object]:
    parts = sorted((machine.output / "results" / "inf-iris" / "predictions").iterdir())
    return [json.loads(line)["prediction"] for part in parts for line in part.read_text().splitlines()]


async def test_rest_and_grpc_give_the_same_predictions(tmp_path: Path, server: MlServer) -> None:
    found = {}
    for protocol, url in (("v2", server.rest), ("grpc-v2", server.grpc)):
        machine = machine_of(tmp_path / protocol, url, protocol)
        ended = await machine.process(INFERRUN_RETRY_SECONDS="30", INFERRUN_BATCH_ROWS="64")
        assert (ended.code, ended.message) == (0, "500 of 500 records predicted"), ended.stderr
        found[protocol] = predictions_of(machine)
    assert found["v2"] == found["grpc-v2"]
    assert set(map(str, found["v2"])) == {"0", "1", "2"}


async def test_a_wrong_model_name_is_reported(tmp_path: Path, server: MlServer) -> None:
    machine = machine_of(tmp_path / "wrong", server.grpc, "grpc-v2")
    machine.contract["kserve"]["modelName"] = "no-such-model"
    ended = await machine.process()
    assert ended.code == 4, ended.stderr
    assert f"model 'no-such-model' at grpc://{server.grpc}: the call failed with" in ended.message


async def test_a_rest_address_is_not_one_of_grpc(tmp_path: Path, server: MlServer) -> None:
    machine = machine_of(tmp_path / "port", server.rest.removeprefix("http://"), "grpc-v2")
    ended = await machine.process()
    assert ended.code == 4, ended.stderr
    assert "the call failed with UNAVAILABLE" in ended.message

"""The folders of a run, and the servers that it uses."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.runner.authority import make_authority
from tests.integration.runner.clouds import Clouds
from tests.integration.runner.clouds import clouds as started_clouds
from tests.integration.runner.openai_server import OpenAiServer, openai_server
from tests.integration.runner.pods import Machine
from tests.integration.runner.postgres_server import Postgres, postgres_server
from tests.integration.runner.s3_server import S3Server, s3_server
from tests.integration.runner.servers import CountingModel, Handler, counting_model, data_handler


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a certificate authority, with the certificates of a server and a client."""
    folder = tmp_path_factory.mktemp("tls") / "authority"
    make_authority(folder)
    return folder


@pytest.fixture
async def model() -> AsyncIterator[CountingModel]:
    """A model server that counts the records it receives."""
    async with counting_model() as server:
        yield server


@pytest.fixture
async def handler() -> AsyncIterator[Handler]:
    """A data handler."""
    async with data_handler() as server:
        yield server


@pytest.fixture
async def llm() -> AsyncIterator[OpenAiServer]:
    """A server with OpenAI's API."""
    async with openai_server() as server:
        yield server


@pytest.fixture
async def s3(tmp_path: Path) -> AsyncIterator[S3Server]:
    """An S3 server with an empty bucket."""
    async with s3_server(tmp_path / "s3") as server:
        yield server


@pytest.fixture(scope="module")
def clouds() -> Iterator[Clouds]:
    """Emulators of object stores for all tests of a file."""
    with started_clouds() as started:
        yield started


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A database server for all tests of a file."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, model: CountingModel) -> Machine:
    """The folders of a run and a contract that names the model; the test adds input and output."""
    kserve = {
        "modelName": "sum",
        "modelUrl": model.address,
        "modelVersion": "v2",
        "modelInputName": "input-0",
    }
    uid = "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344"
    return Machine(
        tmp_path / "run",
        contract={"jobId": uid, "runId": uid, "jobName": "inf-sums-5be07ada", "kserve": kserve},
    )


@pytest.fixture
def krateo(machine: Machine, handler: Handler) -> Machine:
    """A run that reads from and writes to the data handler."""
    for side in ("input", "output"):
        machine.endpoint(side, {"server-url": handler.url, "token": f"secret-of-{side}"})
        machine.contract[side] = {
            "krateo": {
                "api": {
                    "path": f"/compute/{side}",
                    "verb": "POST",
                    "headers": ["Accept: application/json"],
                    "endpointRef": {"name": "handler-endpoint", "namespace": "elsewhere"},
                }
            }
        }
    machine.contract["parameters"] = {
        "input_table_name": "irises",
        "output_table_name": "predicted",
    }
    return machine


@pytest.fixture
def file(machine: Machine) -> Machine:
    """A run that reads `data/rows.jsonl` on one claim and writes to `results` on another."""
    machine.contract["input"] = {"file": {"claimName": "given", "path": "data/rows.jsonl"}}
    machine.contract["output"] = {"file": {"claimName": "made", "path": "results"}}
    (machine.input / "data").mkdir()
    return machine

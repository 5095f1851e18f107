"""Fixtures: the example data handler with a real PostgreSQL, a model server, and a run that uses
both."""

import csv
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.data_handler.containers import (
    HANDLER_IMAGE,
    POSTGRES_IMAGE,
    TOKEN,
    Database,
    data_handler,
    postgres,
)
from tests.integration.data_handler.engine import CHECKOUT, EngineUnavailable, docker_engine
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, counting_model

EXAMPLES = CHECKOUT / "examples"
PATHS = {"input": "/compute/sklearninput", "output": "/compute/sklearnoutput"}


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """The address of the Docker engine that testcontainers uses."""
    images = {POSTGRES_IMAGE: EXAMPLES / "postgres", HANDLER_IMAGE: EXAMPLES / "data-handler"}
    try:
        with docker_engine(images) as address, pytest.MonkeyPatch.context() as environment:
            environment.setenv("DOCKER_HOST", address)
            # The reaper's image would come from a registry; it is not needed, because every fixture
            # removes its container.
            environment.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
            yield address
    except EngineUnavailable as error:
        pytest.fail(
            f"no Docker engine is available for the data handler tests\n{error}", pytrace=False
        )


@pytest.fixture(scope="session")
def database(engine: str) -> Iterator[Database]:
    """PostgreSQL with the 150 irises."""
    with postgres() as started:
        yield started


@pytest.fixture(scope="session")
def handler(database: Database) -> Iterator[str]:
    """The address of the data handler."""
    with data_handler(database_port=database.port) as address:
        yield address


@pytest.fixture
async def model() -> AsyncIterator[CountingModel]:
    """A model server that predicts the sum of each row."""
    async with counting_model() as server:
        yield server


@pytest.fixture
def run(tmp_path: Path, model: CountingModel, handler: str) -> Machine:
    """A run with a unique id that reads the irises and writes to the table of predictions."""
    uid = str(uuid.uuid4())
    kserve = {
        "modelName": "sum",
        "modelUrl": model.address,
        "modelVersion": "v2",
        "modelInputName": "input-0",
    }
    machine = Machine(
        tmp_path / "run",
        contract={"jobId": uid, "runId": uid, "jobName": f"inf-iris-{uid[:8]}", "kserve": kserve},
    )
    for side, path in PATHS.items():
        machine.endpoint(side, {"server-url": handler, "token": TOKEN})
        endpoint = {"name": "handler-endpoint", "namespace": "elsewhere"}
        machine.contract[side] = {
            "krateo": {"api": {"path": path, "verb": "POST", "endpointRef": endpoint}}
        }
    machine.contract["parameters"] = {
        "input_table_name": "iris",
        "output_table_name": "iris_predictions",
    }
    return machine


@pytest.fixture(scope="session")
def irises() -> list[list[float]]:
    """The rows of iris.csv."""
    with (EXAMPLES / "postgres" / "iris.csv").open(encoding="utf-8", newline="") as file:
        return [[float(value) for value in row[1:]] for row in list(csv.reader(file))[1:]]

"""Runs whose model server gives invalid responses: for some records, or for all of them."""

from typing import Any

import pytest

from inferrun.plugins.testing.protocols import Rows, sums
from tests.conformance.protocol_worlds import PROTOCOLS, ProtocolWorld
from tests.integration.runner.pods import Machine

pytestmark = pytest.mark.thorough

COUNT = 100
BAD = (17, 63)
HIDDEN = 731.25
"""The second number of the bad rows, which no message may contain."""


class Crashed(Exception):
    """An exception in the code of a model: status 500, or UNKNOWN over gRPC, whatever the
    server."""


def damaged(body: bytes) -> bytes:
    return body[:-3]


def prepared(machine: Machine, world: ProtocolWorld, count: int = COUNT) -> Machine:
    """A run of so many records with this server."""
    machine.write_rows([index, HIDDEN if index in BAD else 0.5] for index in range(count))
    machine.contract["kserve"] = {
        "modelName": "sum",
        "modelUrl": world.server.url,
        "protocolVersion": world.name,
    }
    return machine


@pytest.mark.parametrize("protocol", ["v1", "v2", "v2-binary", "grpc-v2"])
async def test_an_invalid_response_costs_one_record(file: Machine, protocol: str) -> None:
    def damage(rows: Rows, body: bytes) -> bytes:
        return damaged(body) if any(row[0] in BAD for row in rows) else body

    async with PROTOCOLS[protocol]() as world:
        world.server.damage = damage
        ended = await prepared(file, world).pod(INFERRUN_BATCH_ROWS="40")
    assert (ended.code, ended.message) == (
        0,
        "98 of 100 records predicted; 2 failed, with their errors in the output",
    )
    errors = file.errors
    assert [(one["index"], one["error"]["code"]) for one in errors] == [
        (at, "invalid_response") for at in BAD
    ]
    assert all(one["error"]["message"].startswith("model 'sum' at") for one in errors)
    assert all(one["error"]["attempts"] >= 2 for one in errors)
    assert str(HIDDEN) not in str(errors)
    predictions = {one["index"]: one.get("prediction") for one in file.results}
    assert predictions == {index: None if index in BAD else index + 0.5 for index in range(COUNT)}


@pytest.mark.parametrize("threshold", ["", "100%"])
@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
async def test_a_server_that_gives_only_invalid_responses_ends_the_attempt(
    file: Machine, protocol: str, threshold: str
) -> None:
    """Whatever the threshold: no record is to blame, and another attempt may find a server that
    works."""
    async with PROTOCOLS[protocol]() as world:
        world.server.damage = lambda _, body: damaged(body)
        file.contract |= {"errorThreshold": threshold} if threshold else {}
        ended = await prepared(file, world, 3000).pod()
    assert (ended.code, ended.result.reason, ended.result.retryable) == (4, "InferenceFailed", True)
    assert "returned an invalid V" in ended.message
    assert len(world.server.received) < 300


@pytest.mark.parametrize("reaction", ["one prediction", "crash"])
@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_a_model_that_predicts_one_record_per_request_gets_one(
    file: Machine, protocol: str, reaction: str
) -> None:
    """Without twice as many requests as records."""

    def predict(rows: Rows) -> list[Any]:  # Any: a prediction
        if len(rows) > 1 and reaction == "crash":
            raise Crashed
        return sums(rows[:1])

    async with PROTOCOLS[protocol]() as world:
        world.server.predict = predict
        ended = await prepared(file, world, 1000).success(INFERRUN_REQUEST_SECONDS="5")
        assert ended.result.records.failed == 0
        assert len(world.server.received) < 1100

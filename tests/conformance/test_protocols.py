"""What every protocol for records of numbers must do."""

import socket
from collections.abc import AsyncIterator

import pyarrow
import pytest

from inferrun.plugins import (
    ArrowRecords,
    Batch,
    ContractError,
    Fault,
    FaultKind,
    InferenceError,
    RecordError,
    Results,
)
from tests.conformance.protocol_worlds import CANARY, PROTOCOLS, ProtocolWorld
from tests.unit.runner.batches import batch, decoded

ROWS = [[1.0, 2.0, 3.5], [-4.0, 0.25, 1e6], [7.0, 8.0, 9.0]]


@pytest.fixture(params=PROTOCOLS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[ProtocolWorld]:
    async with PROTOCOLS[request.param]() as world:
        yield world


async def predict(world: ProtocolWorld, rows: list[list[float]] | list[list[float | None]]) -> Results:
    """Send one request, as a Pod does."""
    async with world.open() as model:
        await model.prepare()
        return await model.predict(batch(rows))


async def test_each_record_has_its_prediction_in_order(world: ProtocolWorld) -> None:
    results = await predict(world, ROWS)
    assert decoded(results) == [sum(row) for row in ROWS]
    assert not results.errors
    assert world.server.received == [ROWS]


async def test_many_records_are_one_request(world: ProtocolWorld) -> None:
    rows = [[float(index), 1.0, 2.0] for index in range(5000)]
    assert decoded(await predict(world, rows)) == [index + 3.0 for index in range(5000)]
    assert len(world.server.received) == 1


async def test_columns_are_sent_as_rows(world: ProtocolWorld) -> None:
    table = pyarrow.record_batch({"a": [1, None, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]})
    async with world.open() as model:
        await model.prepare()
        results = await model.predict(Batch(first=0, records=ArrowRecords(table)))
        divided = await model.predict(Batch(first=0, records=ArrowRecords(table)).part(2, 3))
    assert decoded(results)[0::2] == [2.5, 6.5]
    assert set(results.errors) == {1}
    assert decoded(divided) == [6.5]


@pytest.mark.parametrize(
    "predictions", [[[1.0, 0.5], [-4.0, 0.5], [7.0, 0.5]], [-1, -2, -3], [f"class {at}, «ü»" for at in range(3)]]
)
async def test_a_prediction_may_be_several_values_or_an_integer_or_a_text(
    world: ProtocolWorld, predictions: list[object]
) -> None:
    world.server.predict = lambda _: predictions
    found = decoded(await predict(world, ROWS))
    assert found == predictions
    assert set(map(type, found)) == set(map(type, predictions))


async def test_a_prediction_that_is_not_finite_is_an_error_of_its_record(world: ProtocolWorld) -> None:
    world.server.predict = lambda _: [1.0, float("nan"), float("-inf")]
    results = await predict(world, ROWS)
    assert decoded(results)[0] == 1.0
    assert {at: error.code for at, error in results.errors.items()} == {
        1: "invalid_prediction",
        2: "invalid_prediction",
    }


async def test_too_few_predictions_never_misalign_records(world: ProtocolWorld) -> None:
    world.server.predict = lambda rows: [0.0] * (len(rows) - 1)
    with pytest.raises(Fault) as raised:
        await predict(world, ROWS)
    assert raised.value.kind is FaultKind.INVALID


KINDS = {
    "rejected": FaultKind.REJECTED,
    "busy": FaultKind.BUSY,
    "missing": FaultKind.NOT_SERVED,
    "failed": FaultKind.SERVER_ERROR,
    "broken": FaultKind.INVALID,
}


@pytest.mark.parametrize("failure", KINDS)
async def test_a_failure_has_its_kind_and_nothing_that_the_server_says_is_shown(
    world: ProtocolWorld, failure: str
) -> None:
    world.server.failure = failure
    with pytest.raises(Fault) as raised:
        await predict(world, ROWS)
    assert raised.value.kind is KINDS[failure] or (failure == "busy" and raised.value.is_transient)
    assert CANARY not in str(raised.value)
    assert "model 'sum'" in str(raised.value)


async def test_a_server_that_is_not_there_is_unavailable(world: ProtocolWorld) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"127.0.0.1:{free.getsockname()[1]}"
        async with world.open(url) as model:
            with pytest.raises(Fault) as raised:
                await model.predict(batch(ROWS))
    assert raised.value.kind is FaultKind.UNAVAILABLE
    assert "check" in str(raised.value)


async def test_a_refused_address_is_not_connected_to(world: ProtocolWorld) -> None:
    if world.name == "lines":
        pytest.skip("a package of others opens its own connections")
    async with world.open(allowed_addresses="") as model:
        with pytest.raises((Fault, InferenceError)) as raised:
            await model.prepare()
    assert "the server's address is a loopback address, which runs must not reach" in str(raised.value)
    assert "allowedAddresses" in str(raised.value)
    assert not isinstance(raised.value, Fault) or not raised.value.is_transient
    assert world.server.received == []


async def test_a_name_that_cannot_be_resolved_is_reported(world: ProtocolWorld) -> None:
    async with world.open("no-such-service.invalid:8080") as model:
        with pytest.raises((Fault, InferenceError), match=r"cannot resolve host name 'no-such-service.invalid'"):
            await model.prepare()


@pytest.mark.parametrize("url", ["", "ftp://host:80", "http://[::1", "host:notaport"])
async def test_an_invalid_url_is_reported_with_its_field(world: ProtocolWorld, url: str) -> None:
    with pytest.raises(ContractError, match=r"kserve\.modelUrl"):
        async with world.open(url):
            pass


async def test_a_response_over_the_limit_is_not_read_to_its_end(world: ProtocolWorld) -> None:
    world.server.predict = lambda rows: [[0.5] * 1000 for _ in rows]
    async with world.open(response_bytes=2048) as model:
        await model.prepare()
        with pytest.raises(Fault) as raised:
            await model.predict(batch(ROWS))
    assert raised.value.kind is FaultKind.TOO_LARGE


async def test_the_datatype_of_the_model_is_sent_as_json() -> None:
    async with PROTOCOLS["v2"]() as world:
        world.server.datatype = "INT64"
        rows: list[list[float]] = [[16_777_217.0, 0.5], [16_777_217, 1]]
        results = await predict(world, rows)
    assert world.server.received == [[[16_777_217, 1]]]
    assert world.server.datatypes == ["INT64"]
    assert list(results.errors) == [0]


@pytest.mark.parametrize("name", ["v2-binary", "grpc-v2"])
async def test_the_datatype_of_the_model_is_sent_as_bytes(name: str) -> None:
    async with PROTOCOLS[name]() as world:
        world.server.datatype = "INT8"
        rows: list[list[float | None]] = [[1.0, 2], [3, 400], [5, None], [6.5, 1], [7, -8]]
        results = await predict(world, rows)
    assert world.server.received == [[[1, 2], [7, -8]]]
    assert world.server.kinds == ["binary" if name == "v2-binary" else "grpc"]
    assert [decoded(results)[at] for at in (0, 4)] == [3, -1]
    text = "the record has {}, which datatype INT8 cannot represent (tensor 'input-0')"
    assert results.errors == {
        at: RecordError("invalid_input", text.format(what))
        for at, what in ((1, "a number"), (2, "null"), (3, "a number"))
    }


@pytest.mark.parametrize(("name", "kind"), [("v2", "json"), ("v2-binary", "binary")])
async def test_bytes_are_sent_only_to_a_server_that_advertises_them(name: str, kind: str) -> None:
    async with PROTOCOLS[name]() as world:
        await predict(world, ROWS)
    assert world.server.kinds == [kind]

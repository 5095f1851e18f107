"""Every protocol for records of numbers passes the conformance tests, which packages of others
execute, too."""

from collections.abc import AsyncIterator

import pytest

from inferrun.plugins import Fault, InferenceError, RecordError
from inferrun.plugins.testing import ProtocolTests
from inferrun.plugins.testing.protocols import ROWS, Rows, predict, predictions_in
from tests.conformance.protocol_worlds import PROTOCOLS, ProtocolWorld


class TestProtocols(ProtocolTests):
    @pytest.fixture(params=PROTOCOLS)
    async def world(self, request: pytest.FixtureRequest) -> AsyncIterator[ProtocolWorld]:
        async with PROTOCOLS[request.param]() as world:
            yield world


# it opens its own connections
@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "lines"])
async def test_a_refused_address_is_not_connected_to(name: str) -> None:
    async with PROTOCOLS[name]() as world, world.open(allowed_addresses="") as model:
        with pytest.raises((Fault, InferenceError)) as raised:
            await model.prepare()
    assert "the server's address is a loopback address, which runs must not reach" in str(
        raised.value
    )
    assert "allowedAddresses" in str(raised.value)
    assert not isinstance(raised.value, Fault) or not raised.value.is_transient
    assert world.server.received == []


async def test_the_datatype_of_the_model_is_sent_as_json() -> None:
    async with PROTOCOLS["v2"]() as world:
        world.server.datatype = "INT64"
        rows: Rows = [[16_777_217.0, 0.5], [16_777_217, 1]]
        results = await predict(world, rows)
    assert world.server.received == [[[16_777_217, 1]]]
    assert world.server.datatypes == ["INT64"]
    assert list(results.errors) == [0]


@pytest.mark.parametrize("name", ["v2-binary", "grpc-v2"])
async def test_the_datatype_of_the_model_is_sent_as_bytes(name: str) -> None:
    async with PROTOCOLS[name]() as world:
        world.server.datatype = "INT8"
        rows: Rows = [[1.0, 2], [3, 400], [5, None], [6.5, 1], [7, -8]]
        results = await predict(world, rows)
    assert world.server.received == [[[1, 2], [7, -8]]]
    assert world.server.kinds == ["binary" if name == "v2-binary" else "grpc"]
    assert [predictions_in(results)[at] for at in (0, 4)] == [3, -1]
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

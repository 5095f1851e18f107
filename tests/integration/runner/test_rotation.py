"""Connections are replaced after a while, so that a model that is scaled up behind a Service uses
its new replicas."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from inferrun.plugins import ModelProtocol
from tests.conformance.protocol_worlds import ProtocolWorld, grpc_raw, v2_json
from tests.integration.runner.balancer import balancer
from tests.unit.runner.batches import batch

pytestmark = pytest.mark.thorough

World = Callable[[], AbstractAsyncContextManager[ProtocolWorld]]
SECONDS = 60
"""Time limit; what is waited for takes a fraction of a second."""


async def predict(protocol: ModelProtocol, *, at_a_time: int) -> None:
    """Send some requests at the same time."""
    async with asyncio.TaskGroup() as group:
        for _ in range(at_a_time):
            group.create_task(protocol.predict(batch([[1.0, 2.0, 3.0, 4.0]])))


def address_of(world: ProtocolWorld) -> str:
    return world.server.url.removeprefix("http://")


@pytest.mark.parametrize("world", [v2_json, grpc_raw])
async def test_a_replica_that_is_added_gets_its_share(world: World) -> None:
    async with (
        world() as old,
        world() as new,
        balancer(address_of(old)) as service,
        old.open(service.address, connection_seconds=0.1) as protocol,
    ):
        await predict(protocol, at_a_time=4)
        service.servers.append(address_of(new))
        before = len(old.server.received)
        async with asyncio.timeout(SECONDS):
            while min(len(old.server.received) - before, len(new.server.received)) < 20:
                await predict(protocol, at_a_time=4)


async def test_calls_over_grpc_use_several_connections_so_that_all_replicas_are_used() -> None:
    async with (
        grpc_raw() as one,
        grpc_raw() as other,
        balancer(address_of(one), address_of(other)) as service,
        one.open(service.address, connection_seconds=3600) as protocol,
        asyncio.timeout(SECONDS),
    ):
        while not (one.server.received and other.server.received):
            await predict(protocol, at_a_time=4)

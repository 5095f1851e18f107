"""A Temporal server at a distance: what its latency adds to a run."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from campaigns.faults.node import Container
from campaigns.faults.scenarios import success_message
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import World, world
from tests.integration.shim.gateway import gateway

pytestmark = [pytest.mark.thorough, pytest.mark.alone]

ROUND_TRIP = 0.1
RUNS = 10
ENDS_AFTER = 1.0
NAMESPACES = ("near", "far")


@dataclass(frozen=True)
class Times:
    """Seconds from the creation of a run to its Job, and to its terminal status."""

    to_job: float
    to_end: float


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[World]:
    container = Container(message=success_message(), ends_after=ENDS_AFTER)
    async with world(tmp_path, behave=lambda _run, _launch, _verifies: container) as made:
        yield made


async def measure(ground: World, namespace: str, name: str) -> Times:
    started, to_job = time.monotonic(), 0.0
    await create_run(ground.api, namespace, name, config="iris")
    while True:
        status = (ground.recorder.run_named(namespace, name) or {}).get("status") or {}
        now = time.monotonic() - started
        to_job = to_job or (now if status.get("jobStatus") else 0.0)
        if status.get("phase") in ("Succeeded", "Failed"):
            assert status["phase"] == "Succeeded"
            return Times(to_job, now)
        assert now < 60
        await asyncio.sleep(0.005)


async def test_a_latency_of_100_ms_delays_a_run_by_less_than_a_second(ground: World) -> None:
    address = ground.plane.temporal_address
    async with (
        gateway(address, delay=ROUND_TRIP / 2) as wire,
        ground.installation("near", TEMPORAL_ADDRESS=address),
        ground.installation("far", TEMPORAL_ADDRESS=wire.address),
    ):
        found: dict[str, list[Times]] = {namespace: [] for namespace in NAMESPACES}
        for namespace in NAMESPACES:
            await create_config(ground.api, namespace, "iris")
            await measure(ground, namespace, "first")
        for number in range(RUNS):
            for namespace in NAMESPACES:
                found[namespace].append(await measure(ground, namespace, f"run-{number}"))
    near, far = (found[namespace] for namespace in NAMESPACES)
    to_job, to_end = (
        statistics.median(getattr(one, name) for one in far)
        - statistics.median(getattr(one, name) for one in near)
        for name in ("to_job", "to_end")
    )
    assert to_job > ROUND_TRIP / 2, "the server is not at a distance"
    assert to_end < 1.0

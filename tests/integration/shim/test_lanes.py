"""What is slow delays nothing else: first statuses, new runs, deletions and the runs of another
namespace."""

import asyncio
import time

import pytest
from temporalio.client import Client

from control.informer import Informer, Key
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.gateway import Gateway
from tests.integration.shim.runs import create, read, workflow_status, write_status
from tests.integration.waiting import until

pytestmark = pytest.mark.thorough

OLD = {"phase": "Pending", "reason": "Unschedulable", "observedGeneration": 1}


class Phases:
    """When each run was first seen, and when with which reason it first had a phase."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}
        self.first: dict[str, tuple[float, str]] = {}
        self.reasons: set[str] = set()

    def on_event(self, key: Key, _before: Object | None, after: Object | None) -> None:
        status = (after or {}).get("status") or {}
        self.seen.setdefault(key[1], time.monotonic())
        if status.get("phase"):
            self.reasons.add(status.get("reason", ""))
            self.first.setdefault(key[1], (time.monotonic(), status.get("reason", "")))

    def delay(self, name: str) -> float:
        return self.first[name][0] - self.seen[name]


async def test_the_hundredth_run_has_a_status_although_temporal_hangs(
    api: KubeClient, namespace: str, wire: Gateway, start_shim: StartShim
) -> None:
    wire.stall()
    phases = Phases()
    watch = asyncio.create_task(
        Informer(api, RUNS, namespace=namespace, listener=phases.on_event).run()
    )
    async with start_shim():
        await asyncio.gather(*(create(api, namespace, f"run-{number}") for number in range(100)))

        async def all_have_a_phase() -> bool:
            return len(phases.first) == 100

        await until(all_have_a_phase, seconds=30)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    slowest = max(phases.delay(f"run-{number}") for number in range(100))
    assert phases.reasons == {"Accepted"}
    assert slowest < 15, f"the slowest status took {slowest:.1f} s"


async def test_accepted_is_not_written_if_the_status_of_the_job_follows_at_once(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    phases = Phases()
    watch = asyncio.create_task(
        Informer(api, RUNS, namespace=namespace, listener=phases.on_event).run()
    )
    async with start_shim():
        fast = await create(api, namespace, "fast")
        await write_status(api, fast, phase="Pending", reason="JobCreated", observedGeneration=1)
        await create(api, namespace, "slow")

        async def slow_is_accepted() -> bool:
            return "slow" in phases.first

        await until(slow_is_accepted)
        assert await workflow_status(temporal, fast) is not None
        assert (await read(api, fast)).status.reason == "JobCreated"
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    assert phases.first["fast"][1] == "JobCreated"
    assert phases.first["slow"][1] == "Accepted"
    assert phases.delay("slow") >= 0.25


async def test_a_new_run_starts_before_those_of_an_earlier_shim(
    *, api: KubeClient, namespace: str, wire: Gateway, temporal: Client, start_shim: StartShim
) -> None:
    """Temporal hangs at first, so that nothing has been started when the new run comes."""
    old = [await create(api, namespace, f"old-{number}", status=OLD) for number in range(300)]
    wire.stall()
    async with start_shim():
        new = await create(api, namespace, "new")
        await asyncio.sleep(0.5)
        wire.resume()
        await until(lambda: workflow_status(temporal, new), lambda found: found is not None)
        started = [await workflow_status(temporal, run) is not None for run in old[-50:]]
        assert not all(started)

        async def all_are_started() -> bool:
            return all([await workflow_status(temporal, run) is not None for run in old[-5:]])

        await until(all_are_started)

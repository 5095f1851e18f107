"""Chained runs from end to end: real servers, a real shim and worker, and containers that are real
processes of the runner."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from campaigns.faults.runner_node import Disk, runner_node
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import World, until, world
from inferrun.kube.objects import Object
from tests.integration.runner.servers import CountingModel, counting_model

pytestmark = pytest.mark.thorough

NAMESPACE = "chains"
ROWS = 60
FILES = {
    "input": {"file": {"claimName": "data", "path": "rows.jsonl"}},
    "output": {"file": {"claimName": "data", "path": "out"}},
}


@dataclass
class Chains:
    """An installation with a node."""

    world: World
    disk: Disk
    model: CountingModel

    async def config(
        self, name: str, *, reads: dict[str, str] | None = None, **spec: Any
    ) -> None:  # Any: fields of a spec
        """Create a config; with `reads`, of runs that read the output of another one."""
        storage = {**FILES, "input": {"run": reads}} if reads else FILES
        kserve = {
            "modelName": "sum",
            "modelUrl": self.model.url + "/v2/models/sum/infer",
            "protocolVersion": "v2",
        }
        await create_config(
            self.world.api, NAMESPACE, name, storage=storage, kserve=kserve, backoffLimit=0, **spec
        )

    async def run(self, name: str, *, config: str, **spec: Any) -> Object:  # Any: as above
        """Create a run."""
        return await create_run(self.world.api, NAMESPACE, name, config=config, **spec)

    def status(self, name: str) -> dict[str, Any]:  # Any: JSON
        """The run's status as last seen."""
        found = self.world.recorder.run_named(NAMESPACE, name) or {}
        status: dict[str, Any] = found.get("status") or {}
        return status

    # Any: JSON
    async def until(
        self, name: str, phase: str, reason: str, *, seconds: float = 60
    ) -> dict[str, Any]:
        """Wait until a run is in that phase for that reason."""

        async def is_so() -> bool:
            status = self.status(name)
            return (status.get("phase"), status.get("reason")) == (phase, reason)

        await until(
            f"{name} to be {phase} ({reason}), it is {self.status(name)}", is_so, seconds=seconds
        )
        return self.status(name)

    def results(self, name: str) -> list[dict[str, Any]]:  # Any: JSON
        """The results of a run, in order."""
        folder = self.disk.claim("data") / self.status(name)["output"]["location"].removeprefix(
            "data/"
        )
        parts = json.loads((folder / "manifest.json").read_text())["parts"]
        return [
            json.loads(line)
            for part in parts
            for line in (folder / part["file"]).read_text().splitlines()
        ]


@pytest.fixture
async def chains(tmp_path: Path) -> AsyncIterator[Chains]:
    (tmp_path / "defaults").mkdir()
    (tmp_path / "defaults" / "allowedAddresses").write_text("127.0.0.1")
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(counting_model())
        ground = await stack.enter_async_context(world(tmp_path, behave=None))
        await stack.enter_async_context(ground.installation(NAMESPACE))
        disk = Disk(tmp_path)
        rows = "".join(
            f'{{"custom_id": "c{row}", "inputs": [{row}, 0.5]}}\n' for row in range(ROWS)
        )
        (disk.claim("data") / "rows.jsonl").write_text(rows)
        await stack.enter_async_context(runner_node(ground.plane.kubeconfig, disk=disk))
        yield Chains(ground, disk, model)


async def test_a_run_that_is_created_first_reads_the_output_of_a_later_one_as_soon_as_that_has_succeeded(
    chains: Chains,
) -> None:
    await chains.config("sums")
    await chains.config("again", reads={"name": "first"})
    await chains.config("thrice", reads={"name": "second"})
    await chains.run("third", config="thrice")
    await chains.run("second", config="again")
    for name in ("second", "third"):
        await chains.until(name, "Pending", "WaitingForRun")
    created = time.monotonic()
    await chains.run("first", config="sums")
    status = await chains.until("third", "Succeeded", "Succeeded", seconds=90)
    assert time.monotonic() - created < 60, "the runs were not woken"
    assert status["inputRun"]["name"] == "second"
    assert chains.results("third") == [
        {"index": row, "custom_id": f"c{row}", "prediction": row + 0.5} for row in range(ROWS)
    ]

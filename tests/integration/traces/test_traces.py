"""Traces from end to end: real servers and programs, containers that are real processes of the
runner, and a real collector."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from campaigns.faults.runner_node import Disk, runner_node
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import Installation, World, until, world
from inferrun.kube.objects import RUNS
from inferrun.names import run_workflow_id
from inferrun.run_ref import RunRef
from tests.integration.runner.servers import counting_model
from tests.integration.traces.collector import Receiver, SeenSpan, collector, receiver

pytestmark = pytest.mark.thorough

NAMESPACE = "traced"
ROWS = 40
FILES = {
    "input": {"file": {"claimName": "data", "path": "rows.jsonl"}},
    "output": {"file": {"claimName": "data", "path": "out"}},
}


@dataclass
class Traced:
    """An installation whose traces are received, and the model server of its runs."""

    world: World
    installation: Installation
    received: Receiver
    parents: list[str] = field(default_factory=list)
    """The headers `traceparent` that the model server got."""
    failures_left: int = 0
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def hook(self, request: web.Request) -> web.StreamResponse | None:
        """Note the trace; wait until answers are due, and fail as often as planned."""
        self.parents.append(request.headers.get("traceparent", ""))
        await self.answers.wait()
        if self.failures_left:
            self.failures_left -= 1
            return web.Response(status=404)
        return None

    async def run(self, name: str) -> str:
        """Create a run; returns its UID."""
        run = await create_run(self.world.api, NAMESPACE, name, config="sums")
        return str(run["metadata"]["uid"])

    async def until_ended(self, name: str, phase: str) -> dict[str, Any]:  # Any: JSON
        """Wait until the run has ended so; returns its status."""
        status: dict[str, Any] = {}

        async def has_ended() -> bool:
            nonlocal status
            status = (self.world.recorder.run_named(NAMESPACE, name) or {}).get("status") or {}
            return status.get("phase") == phase

        await until(f"{name} is {phase}", has_ended, seconds=90, now=lambda: status)
        return status

    async def trace(self, uid: str) -> dict[str, list[SeenSpan]]:
        """The spans of a run that has ended, by name, once no more have come for three seconds."""
        seen = -1
        while seen != (seen := len(self.received.spans)):  # noqa: ASYNC110 -- nothing says which span is the last one
            await asyncio.sleep(3)
        found: dict[str, list[SeenSpan]] = {}
        for span in sorted(self.received.spans, key=lambda one: one.start):
            if span.trace == uid.replace("-", ""):
                found.setdefault(span.name, []).append(span)
        return found


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[Traced]:
    (tmp_path / "defaults").mkdir()
    (tmp_path / "defaults" / "allowedAddresses").write_text("127.0.0.1")
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(counting_model())
        received = await stack.enter_async_context(receiver())
        address = stack.enter_context(collector(tmp_path, target=received.url))
        ground = await stack.enter_async_context(world(tmp_path, behave=None))
        installation = await stack.enter_async_context(
            ground.installation(NAMESPACE, OTEL_EXPORTER_OTLP_ENDPOINT=address)
        )
        disk = Disk(tmp_path)
        rows = "".join(f'{{"inputs": [{row}, 0.5]}}\n' for row in range(ROWS))
        (disk.claim("data") / "rows.jsonl").write_text(rows)
        kserve = {
            "modelName": "sum",
            "modelUrl": model.url + "/v2/models/sum/infer",
            "protocolVersion": "v2",
        }
        await create_config(
            ground.api, NAMESPACE, "sums", storage=FILES, kserve=kserve, backoffLimit=1
        )
        await stack.enter_async_context(runner_node(ground.plane.kubeconfig, disk=disk))
        made = Traced(ground, installation, received)
        model.before = made.hook
        yield made


async def test_a_run_has_one_trace_from_its_creation_to_the_requests_of_its_last_attempt(
    traced: Traced,
) -> None:
    traced.answers.set()
    traced.failures_left = 1
    uid = await traced.run("retried")
    status = await traced.until_ended("retried", "Succeeded")
    assert status["attempt"] == 2

    found = await traced.trace(uid)

    assert traced.received.problems() == []
    (root,) = found[f"InferenceRun {NAMESPACE}/retried"]
    assert (root.service, root.attributes["inferrun.records.completed"]) == (
        "inferrun-worker",
        ROWS,
    )
    assert [span.service for span in found["start the workflow"]] == ["inferrun-shim"]
    assert {"LaunchJob", "RecordOutcome"} <= set(found)
    (first,), (second,) = found["launch 1"], found["launch 2"]
    assert (first.is_error, second.is_error) == (True, False)
    assert first.attributes["k8s.pod.name"] == status["attempts"][0]["podName"]
    requests = found["request"]
    assert {span.parent for span in requests} == {first.id, second.id}
    assert requests[0].is_error
    parents = {parent.split("-")[2] for parent in traced.parents if parent}
    assert parents == {span.id for span in requests}
    assert [span.parent for span in found["commit the output"]] == [second.id]


async def test_a_run_that_another_workflow_and_worker_take_over_keeps_its_trace(
    traced: Traced,
) -> None:
    uid = await traced.run("taken-over")
    await until("the model is asked", lambda: len(traced.parents), seconds=60)
    workflow = run_workflow_id(RunRef(namespace=NAMESPACE, name="taken-over", uid=uid))
    await traced.world.temporal.get_workflow_handle(workflow).terminate("by a test")
    traced.installation.worker.kill()
    traced.answers.set()
    await traced.until_ended("taken-over", "Succeeded")

    found = await traced.trace(uid)

    assert traced.received.problems() == []
    workflows = {
        span.attributes.get("temporal.workflow.id")
        for span in found["LaunchJob"] + found["RecordOutcome"]
    }
    assert f"{workflow}/recover" in workflows
    (launch,) = found["launch 1"]
    assert {span.parent for span in found["request"]} == {launch.id}


async def test_a_run_that_is_deleted_while_it_is_in_progress_has_a_complete_trace(
    traced: Traced,
) -> None:
    uid = await traced.run("deleted")
    await until("the model is asked", lambda: len(traced.parents), seconds=60)
    await traced.world.api.delete(RUNS, NAMESPACE, "deleted", uid=uid)
    await until(
        "its end is traced",
        lambda: traced.received.named(f"InferenceRun {NAMESPACE}/deleted"),
        seconds=90,
    )

    found = await traced.trace(uid)

    assert traced.received.problems() == []
    (root,) = found[f"InferenceRun {NAMESPACE}/deleted"]
    assert root.is_error
    assert root.attributes["inferrun.reason"] == "Cancelled"

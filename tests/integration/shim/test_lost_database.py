"""Temporal's database was replaced by an empty one, or Temporal does not answer."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import free_port
from control.search_attributes import SearchAttributes
from control.temporal_monitor import TemporalMonitor
from inferrun.kube.client import KubeClient
from inferrun.temporal.connection import ATTRIBUTES
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.workflows import RunWorkflows
from tests.integration.namespaces.installation import probe
from tests.integration.shim.gateway import Gateway
from tests.integration.shim.runs import create, workflow_status
from tests.integration.waiting import until

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 60
"""On a busy machine."""


async def empty_server(address: str) -> Client:
    client = await Client.connect(address, lazy=True, plugins=[inferrun_plugin()])
    async with asyncio.timeout(SECONDS):
        while not await _has_default_namespace(client):  # noqa: ASYNC110 -- a server has no event of its own
            await asyncio.sleep(0.1)
    return client


async def _has_default_namespace(client: Client) -> bool:
    try:
        await _attributes(client)
    except (RPCError, RuntimeError):
        # a lazy client connects here, and raises RuntimeError until the server is healthy
        return False
    return True


async def _attributes(client: Client) -> set[str]:
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace="default")
    )
    return set(answer.custom_attributes)


def workflows_of(client: Client, name: str) -> RunWorkflows:
    return RunWorkflows(
        client,
        installation=name,
        task_queue=name,
        attributes=SearchAttributes(client, installation=name),
    )


async def test_a_start_that_is_rejected_for_its_search_attributes_registers_them(
    api: KubeClient, namespace: str, other_temporal: str
) -> None:
    client = await empty_server(other_temporal)
    run = await create(api, namespace, "run")
    await workflows_of(client, namespace).ensure(run)
    assert await workflow_status(client, run) is not None
    assert {key.name for key in ATTRIBUTES} <= await _attributes(client)


async def test_without_room_for_search_attributes_runs_start_with_a_memo_only(
    api: KubeClient, namespace: str, other_temporal: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await empty_server(other_temporal)
    taken = {f"Taken{number}": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for number in range(9)}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace="default", search_attributes=taken)
    )
    runs = [await create(api, namespace, f"run-{number}") for number in range(3)]
    workflows = workflows_of(client, namespace)
    for run in runs:
        await workflows.ensure(run)
        assert await workflow_status(client, run) is not None
    warnings = [
        record
        for record in caplog.records
        if "search attributes cannot be registered" in record.message
    ]
    assert len(warnings) == 1
    assert workflows.is_ready


async def test_a_server_that_does_not_answer_makes_the_process_unready_until_it_answers_again(
    far_side: Client, wire: Gateway, temporal: Client
) -> None:
    monitor = TemporalMonitor(far_side, interval=0.1, tolerated_seconds=3)
    task = asyncio.create_task(monitor.run())
    await asyncio.sleep(0.5)
    assert monitor.is_ready
    wire.stall()

    async def is_unready() -> bool:
        return not monitor.is_ready

    await until(is_unready, seconds=SECONDS)
    wire.resume()

    async def is_ready() -> bool:
        return monitor.is_ready

    await until(is_ready, seconds=SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def environment_of(
    plane: ControlPlane, namespace: str, wire: Gateway, *, port: int, defaults: Path
) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "INFERRUN_KUBECONFIG": str(plane.kubeconfig),
        "TEMPORAL_ADDRESS": wire.address,
        "WATCH_NAMESPACE": namespace,
        "INFERRUN_TASK_QUEUE": namespace,
        "HEALTH_PORT": str(port),
        "INFERRUN_DEFAULTS": str(defaults),
    }


@pytest.mark.parametrize("module", ["worker", "operator_shim"])
async def test_a_program_restarts_when_the_database_was_replaced_and_the_shim_starts_every_run_again(
    *,
    plane: ControlPlane,
    api: KubeClient,
    namespace: str,
    wire: Gateway,
    temporal: Client,
    other_temporal: str,
    tmp_path: Path,
    module: str,
) -> None:
    client = await empty_server(other_temporal)
    status = {"phase": "Running", "reason": "Running", "observedGeneration": 1}
    runs = [await create(api, namespace, f"run-{number}", status=status) for number in range(100)]
    port = free_port()
    environment = environment_of(plane, namespace, wire, port=port, defaults=tmp_path)

    async def start() -> asyncio.subprocess.Process:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE
        )
        await until(lambda: asyncio.to_thread(probe, port), lambda found: found[0] == 200)
        return program

    async def all_are_started() -> bool:
        return all([await workflow_status(client, run) is not None for run in runs])

    program = await start()
    await asyncio.sleep(2)
    wire.switch(other_temporal)
    output, _ = await asyncio.wait_for(program.communicate(), SECONDS)
    assert program.returncode == 1
    [error] = [
        line for line in map(json.loads, output.splitlines()) if line["logger"] == "control.process"
    ]
    assert "'default' was replaced" in error["error"]
    if module == "operator_shim":
        program = await start()
        await until(all_are_started, seconds=SECONDS)
        program.terminate()
        await program.communicate()

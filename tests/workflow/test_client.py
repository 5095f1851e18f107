"""The client with Temporal alone, against a real Temporal server and the workflow of the front door."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from temporalio.client import Client as TemporalClient

from control.temporal_calls import signal_workflow
from inferrun.client import (
    AsyncClient,
    Client,
    InvalidRequest,
    NotConnected,
    RequestMismatch,
    RunEnded,
    RunFailed,
    RunNotFound,
    ServerUnreachable,
    WaitTimedOut,
)
from inferrun.reasons import Phase, Reason
from inferrun.run_result import RunResult
from tests.workflow.submissions import Runs, result_for, served, until
from workflows.messages import LOOK_AGAIN_SIGNAL


@pytest.fixture
def queue() -> str:
    return f"client-{uuid4().hex[:8]}"


@pytest.fixture
def name() -> str:
    return f"iris-{uuid4().hex[:8]}"


@pytest.fixture
async def client(temporal_address: str, queue: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """A client of a program that has no cluster."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    async with await AsyncClient.connect(namespace="team", through="temporal", task_queue=queue) as made:
        yield made


async def end(temporal: TemporalClient, runs: Runs, name: str, *, phase: Phase, reason: Reason) -> RunResult:
    """Let the run of that name end."""
    await until(lambda: name in runs.made)
    ref = runs.made[name]
    runs.results[ref.uid] = result = result_for(ref, phase=phase, reason=reason, message="9 of 9")
    await signal_workflow(temporal, name, LOOK_AGAIN_SIGNAL)
    return result


async def test_a_program_gets_the_result_of_its_run(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    runs = Runs()
    async with served(temporal, queue, runs), asyncio.timeout(60):
        run = await client.submit("iris", {"day": "monday"}, name=name, timeout_seconds=5, labels={"team": "a"})
        expected = await end(temporal, runs, name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        assert await client.wait(run) == expected
    asked = runs.asked[0].submission
    assert asked.config_ref is not None
    assert (asked.namespace, asked.config_ref.name, asked.parameters) == ("team", "iris", {"day": "monday"})
    assert (asked.timeout_seconds, asked.labels) == (5, {"team": "a"})


async def test_a_failed_run_raises_its_reason_and_result(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    runs = Runs()
    async with served(temporal, queue, runs):
        await client.submit("iris", name=name)
        expected = await end(temporal, runs, name, phase=Phase.FAILED, reason=Reason.INPUT_FAILED)
        with pytest.raises(RunFailed, match="9 of 9") as failed:
            await client.wait(name)
    assert (failed.value.reason, failed.value.result) == (Reason.INPUT_FAILED, expected)


async def test_a_cancelled_run_raises_cancelled(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    runs = Runs()
    async with served(temporal, queue, runs):
        await client.submit("iris", name=name)
        await until(lambda: name in runs.made)
        await client.cancel(name)
        await until(lambda: name in runs.cancelled)
        await end(temporal, runs, name, phase=Phase.FAILED, reason=Reason.CANCELLED)
        with pytest.raises(RunFailed) as failed:
            await client.wait(name)
    assert failed.value.reason is Reason.CANCELLED


async def test_the_same_request_finds_its_run_and_another_one_is_a_mismatch(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    runs = Runs()
    async with served(temporal, queue, runs):
        first, second = [await client.submit("iris", {"a": "1"}, name=name) for _ in range(2)]
        assert first == second
        with pytest.raises(RequestMismatch, match=f"run {name} exists already"):
            await client.submit("iris", {"a": "2"}, name=name)
        expected = await end(temporal, runs, name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        assert await client.wait(second) == expected


async def test_waiting_can_time_out_and_be_repeated(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    runs = Runs()
    async with served(temporal, queue, runs):
        await client.submit("iris", name=name)
        with pytest.raises(WaitTimedOut):
            await client.wait(name, timeout=0.5)
        expected = await end(temporal, runs, name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        assert await client.wait(name) == expected


async def test_a_run_that_nobody_submitted_is_not_found(client: AsyncClient, name: str) -> None:
    for request in (client.wait(name), client.cancel(name)):
        with pytest.raises(RunNotFound):
            await request


async def test_a_run_that_has_ended_is_not_cancelled(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    runs = Runs()
    async with served(temporal, queue, runs):
        await client.submit("iris", name=name)
        await end(temporal, runs, name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        await client.wait(name)
        with pytest.raises(RunEnded, match=f"run team/{name} has ended"):
            await client.cancel(name)


async def test_nothing_but_the_run_of_that_name_and_namespace_is_cancelled(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    other = await temporal.start_workflow("SomethingElse", id=f"other-{name}", task_queue=queue)
    async with served(temporal, queue, Runs()):
        await client.submit("iris", name=name)
        for run in (other.id, f"elsewhere/{name}"):
            with pytest.raises(RunNotFound):
                await client.cancel(run)
        for handle in (other, temporal.get_workflow_handle(name)):
            history = (await handle.fetch_history()).to_json()
            assert "workflowExecutionCancelRequested" not in history
            await handle.terminate()


async def test_an_invalid_request_names_the_field_without_asking_the_server(client: AsyncClient) -> None:
    with pytest.raises(InvalidRequest, match="shards"):
        await client.submit("iris", shards=0)
    with pytest.raises(InvalidRequest, match="name: 'Iris'"):
        await client.submit("iris", name="Iris")


async def test_what_needs_kubernetes_says_so(client: AsyncClient) -> None:
    with pytest.raises(NotConnected, match="Kubernetes"):
        await client.get("iris")


async def test_a_program_without_a_cluster_uses_temporal(
    temporal_address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    async with await AsyncClient.connect() as made:
        assert made.server.startswith("Temporal")


def test_a_temporal_server_that_does_not_respond_is_an_error_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    with pytest.raises(ServerUnreachable) as raised:
        Client(through="temporal")
    assert "TEMPORAL_ADDRESS" in raised.value.fix


async def test_a_program_without_an_event_loop_has_the_same_methods(
    temporal: TemporalClient, temporal_address: str, queue: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    runs = Runs()

    def program() -> tuple[RunResult, list[Phase | None]]:
        with Client(namespace="team", through="temporal", task_queue=queue) as client:
            run = client.submit("iris", name=name)
            return client.wait(run), [state.status.phase for state in client.watch(run)]

    async with served(temporal, queue, runs):
        working = asyncio.create_task(asyncio.to_thread(program))
        expected = await end(temporal, runs, name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        result, phases = await working
    assert result == expected
    assert phases == [Phase.PENDING, Phase.SUCCEEDED]


async def test_the_progress_of_a_run_can_be_watched(
    temporal: TemporalClient, client: AsyncClient, queue: str, name: str
) -> None:
    runs, phases = Runs(), []
    async with served(temporal, queue, runs), asyncio.timeout(60):
        await client.submit("iris", name=name)
        async for state in client.watch(name):
            phases.append(state.status.phase)
            if state.status.phase is Phase.RUNNING:
                await end(temporal, runs, name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
    assert phases[0] is Phase.PENDING
    assert phases[-2:] == [Phase.RUNNING, Phase.SUCCEEDED]

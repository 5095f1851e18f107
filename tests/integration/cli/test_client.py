"""The client of programs, with a real API server: what it raises for mistakes, and that both
clients do the same."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pandas
import pytest

from inferrun.client import (
    AccessDenied,
    AsyncClient,
    Client,
    ConfigNotFound,
    InvalidRequest,
    NotConnected,
    RunEnded,
    RunFailed,
    RunNotFound,
    ServerUnreachable,
)
from inferrun.kube.objects import CONFIGS
from inferrun.reasons import Phase, Reason
from tests.integration.cli.run_space import CANCELLED, PROGRESS, RunSpace

FRAME = pandas.DataFrame({"a": [1.0]})


@pytest.fixture
async def client(space: RunSpace) -> AsyncIterator[AsyncClient]:
    async with await AsyncClient.connect(kubeconfig=space.kubeconfig, namespace=space.name) as made:
        yield made


async def test_a_config_that_does_not_exist_is_an_error_and_no_run_waits_for_it(
    space: RunSpace, client: AsyncClient
) -> None:
    for request in (client.submit("irsi"), client.predict(FRAME, "irsi")):
        with pytest.raises(ConfigNotFound, match=rf"config {space.name}/irsi does not exist"):
            await request
    assert await client.list() == []


async def test_a_repeated_request_finds_its_run_after_its_config_was_deleted(
    space: RunSpace, client: AsyncClient
) -> None:
    uid = await space.create_config("iris")
    run = await client.submit("iris", name="mine")
    await space.api.delete(CONFIGS, space.name, "iris", uid=uid)
    assert (await client.submit("iris", name="mine")).metadata.uid == run.metadata.uid
    with pytest.raises(ConfigNotFound):
        await client.submit("iris", name="other")


async def test_a_data_frame_is_not_submitted(client: AsyncClient) -> None:
    with pytest.raises(InvalidRequest) as raised:
        await client.submit(FRAME)
    assert "predict(frame, config)" in raised.value.fix


async def test_whoever_may_nothing_is_told_so(space: RunSpace, stranger: Path) -> None:
    async with await AsyncClient.connect(kubeconfig=stranger, namespace=space.name) as client:
        for request in (
            client.submit("iris"),
            client.get("iris"),
            client.list(),
            client.wait("iris"),
            client.cancel("iris"),
            client.suspend("iris"),
            client.retry("iris"),
            client.results("iris"),
            client.predict(FRAME, "iris"),
        ):
            with pytest.raises(AccessDenied, match="forbidden"):
                await request


def test_without_a_cluster_the_error_says_how_to_select_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("KUBECONFIG", "TEMPORAL_ADDRESS", "TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(NotConnected) as raised:
        Client()
    assert "KUBECONFIG" in raised.value.fix
    assert "programs that reach only Temporal" in raised.value.fix


def test_a_cluster_that_does_not_answer_is_an_error(space: RunSpace, tmp_path: Path) -> None:
    dead, config = tmp_path / "dead", json.loads(space.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    dead.write_text(json.dumps(config))
    with (
        Client(kubeconfig=dead) as client,
        pytest.raises(ServerUnreachable, match="does not respond"),
    ):
        client.list()


async def test_a_program_without_an_event_loop_does_the_same(space: RunSpace) -> None:
    await space.create_config("iris")

    def program() -> None:
        with Client(kubeconfig=space.kubeconfig, namespace=space.name) as client:
            run = client.submit(
                "iris", {"day": "monday"}, name="mine", labels={"team": "a"}, timeout_seconds=5
            )
            assert (run.spec.parameters, run.spec.timeout_seconds) == ({"day": "monday"}, 5)
            assert [one.metadata.name for one in client.list(selector="team=a")] == ["mine"]
            assert client.suspend(run).spec.suspend is True
            assert client.resume("mine").spec.suspend is False
            states = client.watch(run)
            assert next(states).status.phase is None
            report(PROGRESS)
            assert next(states).status.phase is Phase.RUNNING
            client.cancel(run)
            report(CANCELLED)
            assert [state.status.reason for state in states][-1] == "Cancelled"
            with pytest.raises(RunFailed, match="it was cancelled") as failed:
                client.wait(run)
            assert (failed.value.reason, failed.value.result is not None) == (
                Reason.CANCELLED,
                True,
            )
            for call in (client.cancel, client.suspend):
                with pytest.raises(RunEnded):
                    call(run)
            again = client.retry(run, all_records=True)
            assert (again.spec.parameters, again.metadata.labels) == (
                {"day": "monday"},
                {"team": "a"},
            )
            with pytest.raises(RunNotFound):
                client.get("nothing")

    loop = asyncio.get_running_loop()

    def report(status: dict[str, object]) -> None:
        asyncio.run_coroutine_threadsafe(space.report("mine", status), loop).result(30)

    await asyncio.to_thread(program)


def test_both_clients_have_the_same_methods() -> None:
    def methods(client: type) -> set[str]:
        return {
            name
            for name, value in inspect.getmembers(client, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(AsyncClient) == methods(Client)

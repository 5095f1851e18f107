"""An edit is signalled to the run's workflow until it is acknowledged, and then never again."""

import asyncio

from temporalio.client import Client

from inferrun.kube.client import KubeClient
from tests.integration.shim.conftest import StartShim, Until
from tests.integration.shim.runs import create, edit, read, signals, workflow_status, write_status

LAUNCHED = {"phase": "Running", "reason": "Running", "observedGeneration": 1, "contract": "e30="}


async def test_an_edit_is_signalled_once_however_often_the_runs_are_resynced(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim, until: Until
) -> None:
    run = await create(api, namespace, "run", status=LAUNCHED, timeoutSeconds=60)
    async with start_shim(resync_seconds=1):
        await edit(api, run, timeoutSeconds=90)

        async def is_acknowledged() -> bool:
            return (await read(api, run)).status.observed_generation == 2

        await until(is_acknowledged)
        await asyncio.sleep(4)
        await write_status(api, run, message="a change of the status alone")
        await asyncio.sleep(1)
    async with start_shim(resync_seconds=1):  # a shim that knows nothing of the first one's signals
        await asyncio.sleep(3)
    assert await signals(temporal, run) == ["spec_changed"]


async def test_an_edit_before_a_restart_is_signalled_afterwards(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim, until: Until
) -> None:
    run = await create(api, namespace, "run", status=LAUNCHED, timeoutSeconds=60)
    await edit(api, run, timeoutSeconds=90)
    async with start_shim():

        async def is_acknowledged() -> bool:
            return (await read(api, run)).status.observed_generation == 2

        await until(is_acknowledged)
    assert await signals(temporal, run) == ["spec_changed"]


async def test_a_run_that_nobody_has_read_needs_no_signal(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim, until: Until
) -> None:
    run = await create(api, namespace, "run", timeoutSeconds=60)
    await edit(api, run, timeoutSeconds=90)
    async with start_shim(resync_seconds=1):

        async def is_accepted() -> bool:
            return (await read(api, run)).status.reason == "Accepted"

        await until(is_accepted)
        await asyncio.sleep(2)
        assert (await read(api, run)).status.observed_generation is None  # LaunchJob will acknowledge what it reads
        assert await workflow_status(temporal, run) is not None
        assert await signals(temporal, run) == []

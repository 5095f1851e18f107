"""A run that waits for another one is told to look again as soon as that one has changed, and only
then."""

from temporalio.client import Client

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from inferrun.resources import InferenceRun
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.runs import create, signals, workflow_status, write_status
from tests.integration.waiting import until

RUNNING = {"phase": "Running", "reason": "Running", "observedGeneration": 1, "contract": "e30="}
ENDED = {"phase": "Succeeded", "reason": "Succeeded", "completionTime": "2026-11-21T08:00:00Z"}


async def reader_of(
    api: KubeClient, first: InferenceRun, *, name: str = "second", phase: str = "Running"
) -> InferenceRun:
    """A run whose workflow exists, and whose launch has seen the first run in that phase."""
    seen = {"name": first.metadata.name, "uid": first.metadata.uid, "phase": phase}
    waiting = {
        "phase": "Pending",
        "reason": "WaitingForRun",
        "message": "it runs",
        "observedGeneration": 1,
    }
    return await create(api, first.metadata.namespace, name, status={**waiting, "inputRun": seen})


async def test_a_run_is_told_when_the_run_that_it_waits_for_ends(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    first = await create(api, namespace, "first", status=RUNNING)
    async with start_shim():
        second = await reader_of(api, first)
        await until(lambda: workflow_status(temporal, second))
        before = await signals(temporal, second)
        await write_status(api, first, records={"total": 5, "completed": 1, "failed": 0})
        await write_status(api, first, **ENDED)
        await until(
            lambda: signals(temporal, second), lambda found: len(found) > len(before), seconds=10
        )
        assert (await signals(temporal, second))[len(before) :] == ["look_again"]


async def test_a_run_is_told_of_an_end_that_came_before_its_launch_could_say_what_it_waits_for(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    first = await create(api, namespace, "first", status={**RUNNING, **ENDED})
    async with start_shim():
        second = await reader_of(api, first)
        await until(lambda: workflow_status(temporal, second))
        await until(
            lambda: signals(temporal, second), lambda found: found == ["look_again"], seconds=10
        )


async def test_a_run_is_told_when_the_run_that_it_waits_for_is_deleted_and_created_again(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    first = await create(api, namespace, "first", status=RUNNING)
    async with start_shim():
        second = await reader_of(api, first)
        await until(lambda: workflow_status(temporal, second))
        await api.delete(RUNS, namespace, "first", uid=first.metadata.uid)
        await until(lambda: signals(temporal, second), lambda found: len(found) == 1, seconds=10)
        await write_status(api, second, inputRun={"name": "first", "uid": None, "phase": None})
        await create(api, namespace, "first")
        await until(lambda: signals(temporal, second), lambda found: len(found) >= 2, seconds=10)


async def test_a_run_is_told_of_what_happened_while_there_was_no_shim(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    first = await create(api, namespace, "first", status=RUNNING)
    async with start_shim():
        second = await reader_of(api, first)
        await until(lambda: workflow_status(temporal, second))
    before = await signals(temporal, second)
    await write_status(api, first, **ENDED)
    async with start_shim():
        await until(
            lambda: signals(temporal, second), lambda found: len(found) > len(before), seconds=10
        )

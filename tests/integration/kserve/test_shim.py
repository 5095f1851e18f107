"""A change of the object of KServe that a run waits for makes the run's workflow look again: a
whole shim, on real servers."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from inferrun.kserve import NotYet, Wanted, resolve
from inferrun.kube.client import KubeClient
from inferrun.kube.kserve_kinds import not_installed
from inferrun.resources import InferenceRun
from inferrun.timestamps import utc_now
from tests.integration.kserve.cluster import apply, install
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.runs import create, signals, workflow_status, write_status
from tests.integration.waiting import until
from tests.unit.inferrun.kserve.stored import Json, knative, merged, recorded
from workflows import messages

pytestmark = pytest.mark.thorough

STARTING = merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}})


def starting(namespace: str) -> str:
    """What a launch says of the object that starts."""
    found = resolve(
        merged(STARTING, {"metadata": {"namespace": namespace}}), Wanted(), now=utc_now()
    )
    assert isinstance(found, NotYet)
    return found.message


def waiting(namespace: str, *, message: str, reason: str = "ModelNotReady", **changes: Any) -> Json:
    """The status of a run that waits for the model."""
    model = {"kind": "InferenceService", "namespace": namespace, "name": "sklearn-iris"}
    return {
        "phase": "Pending",
        "reason": reason,
        "message": message,
        "model": model,
        "observedGeneration": 1,
        **changes,
    }


async def looks(temporal: Client, run: InferenceRun) -> int:
    """How often the run's workflow was told to look again."""
    if await workflow_status(temporal, run) is None:
        return 0
    return (await signals(temporal, run)).count(messages.LOOK_AGAIN_SIGNAL)


async def started(temporal: Client, *runs: InferenceRun) -> None:
    """The workflows run, as they do for a run that waits."""
    for run in runs:

        async def is_started(run: InferenceRun = run) -> bool:
            return await workflow_status(temporal, run) is not None

        await until(is_started)


@pytest.mark.usefixtures("kserve")
async def test_a_run_looks_again_when_its_model_becomes_ready(
    api: KubeClient, namespace: str, start_shim: StartShim, temporal: Client
) -> None:
    await apply(api, namespace, STARTING)
    async with start_shim():
        run = await create(api, namespace, "first")
        other = await create(api, namespace, "other")
        await started(temporal, run, other)
        message = starting(namespace)
        await write_status(api, run, **waiting(namespace, message=message))
        await write_status(
            api, other, phase="Pending", reason="ConfigNotFound", message="no config"
        )
        await asyncio.sleep(2)  # nothing happens
        assert await looks(temporal, run) == 0
        await apply(api, namespace, knative())
        await until(lambda: looks(temporal, run), lambda found: found > 0)
        assert await looks(temporal, other) == 0


@pytest.mark.usefixtures("no_kserve")
async def test_kserve_may_be_installed_while_runs_wait_for_it(
    api: KubeClient, namespace: str, start_shim: StartShim, temporal: Client
) -> None:
    async with start_shim():
        run = await create(api, namespace, "before")
        await started(temporal, run)
        message = not_installed("InferenceService")
        await write_status(
            api, run, **waiting(namespace, message=message, reason="KServeNotInstalled")
        )
        await asyncio.sleep(1)
        assert await looks(temporal, run) == 0
        await install(api)
        await until(lambda: looks(temporal, run), lambda found: found > 0, seconds=90)

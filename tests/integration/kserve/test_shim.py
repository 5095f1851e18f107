"""A change of the object of KServe that a run waits for makes the run's workflow look again: a whole shim, on real servers."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from control.kserve_kinds import missing, not_installed
from inferrun.kserve import NotYet, Wanted, resolve
from inferrun.kserve.status import SETTLED_AFTER
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.resources import InferenceRun
from inferrun.timestamps import parse, utc_now
from operator_shim.models import ModelWatches
from tests.integration.kserve.cluster import INFERENCE_SERVICES, apply, install
from tests.integration.shim.conftest import StartShim, Until
from tests.integration.shim.runs import create, signals, workflow_status, write_status
from tests.unit.inferrun.kserve.stored import Json, knative, merged, recorded, standard
from workflows import messages

pytestmark = pytest.mark.thorough

STARTING = merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}})


def starting(namespace: str) -> str:
    """What a launch says of the object that starts."""
    found = resolve(merged(STARTING, {"metadata": {"namespace": namespace}}), Wanted(), now=utc_now())
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


async def started(temporal: Client, until: Until, *runs: InferenceRun) -> None:
    """The workflows run, as they do for a run that waits."""
    for run in runs:

        async def is_started(run: InferenceRun = run) -> bool:
            return await workflow_status(temporal, run) is not None

        await until(is_started)


@pytest.mark.usefixtures("kserve")
async def test_a_run_looks_again_when_its_model_becomes_ready(
    api: KubeClient, namespace: str, start_shim: StartShim, until: Until, temporal: Client
) -> None:
    await apply(api, namespace, STARTING)
    async with start_shim():
        run = await create(api, namespace, "first")
        other = await create(api, namespace, "other")
        await started(temporal, until, run, other)
        message = starting(namespace)
        await write_status(api, run, **waiting(namespace, message=message))
        await write_status(api, other, phase="Pending", reason="ConfigNotFound", message="no config")
        await asyncio.sleep(2)  # nothing happens
        assert await looks(temporal, run) == 0
        await apply(api, namespace, knative())
        await until(lambda: looks(temporal, run), lambda found: found > 0)
        assert await looks(temporal, other) == 0


@pytest.mark.usefixtures("kserve")
async def test_a_change_between_the_launch_and_its_status_is_not_lost(
    api: KubeClient, namespace: str, start_shim: StartShim, until: Until, temporal: Client
) -> None:
    """The object was ready before the status of the run said that it waits for it."""
    await apply(api, namespace, knative())
    async with start_shim():
        run = await create(api, namespace, "late")
        await started(temporal, until, run)
        await write_status(api, run, **waiting(namespace, message=starting(namespace)))
        await until(lambda: looks(temporal, run), lambda found: found > 0)


@pytest.mark.usefixtures("kserve")
@pytest.mark.parametrize("is_relaunch", [True, False])
async def test_a_relaunch_is_woken_up_too_and_so_is_a_run_whose_object_is_created_later(
    *, api: KubeClient, namespace: str, start_shim: StartShim, until: Until, temporal: Client, is_relaunch: bool
) -> None:
    """A relaunch has a contract, of which the shim's cache keeps only a part."""
    changes = {"message": missing(f"InferenceService {namespace}/sklearn-iris")}
    if is_relaunch:
        await apply(api, namespace, STARTING)
        changes = {"message": starting(namespace), "contract": "e30="}
    async with start_shim():
        run = await create(api, namespace, "again" if is_relaunch else "early")
        await started(temporal, until, run)
        await write_status(api, run, **waiting(namespace, **changes))
        await asyncio.sleep(1)
        assert await looks(temporal, run) == 0
        await apply(api, namespace, knative())
        await until(lambda: looks(temporal, run), lambda found: found > 0)


@pytest.mark.usefixtures("no_kserve")
async def test_kserve_may_be_installed_while_runs_wait_for_it(
    api: KubeClient, namespace: str, start_shim: StartShim, until: Until, temporal: Client
) -> None:
    async with start_shim():
        run = await create(api, namespace, "before")
        await started(temporal, until, run)
        message = not_installed("InferenceService")
        await write_status(api, run, **waiting(namespace, message=message, reason="KServeNotInstalled"))
        await asyncio.sleep(1)
        assert await looks(temporal, run) == 0
        await install(api)
        await until(lambda: looks(temporal, run), lambda found: found > 0, seconds=90)


@pytest.mark.usefixtures("kserve")
async def test_a_run_looks_again_a_while_after_an_edit_although_the_object_does_not_change(
    api: KubeClient, namespace: str, until: Until
) -> None:
    """KServe copies observedGeneration from another object, which this edit does not reach. The watch's clock is ahead, so that the
    while is short.
    """
    await apply(api, namespace, standard())
    edit = {"spec": {"predictor": {"timeout": 60}}}
    stored = await api.patch(INFERENCE_SERVICES, namespace, "sklearn-iris", edit)
    message = (
        f"InferenceService {namespace}/sklearn-iris was edited, and its status is still of generation "
        f"{stored['metadata']['generation'] - 1} instead of {stored['metadata']['generation']}; the run starts when KServe has "
        "dealt with the edit"
    )
    run = {
        "metadata": {"name": "run", "namespace": namespace, "uid": "u"},
        "status": waiting(namespace, message=message),
    }
    edited = max(parse(entry["time"]) for entry in stored["metadata"]["managedFields"])
    looked: list[datetime] = []

    def now() -> datetime:
        return utc_now() + SETTLED_AFTER - timedelta(seconds=15)

    watches = ModelWatches(
        api,
        namespaces=Namespaces((namespace,)),
        read=lambda _: run,
        recheck=lambda *_: looked.append(now()),
        now=now,
    )
    watches.observe((namespace, "run"), run)
    running = asyncio.create_task(watches.run())

    async def has_looked() -> bool:
        return bool(looked)

    await until(has_looked)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    [at] = looked
    assert at >= edited + SETTLED_AFTER

"""Misuses of placeholders, parameters and intervals, on a real API server: each is rejected, or
reported, with field and cause."""

import asyncio
import time

from temporalio.client import Client

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, RUNS, Object
from inferrun.names import run_workflow_id
from inferrun.reasons import Reason
from inferrun.resources import parse_run
from tests.integration.control.pods import launch, launcher_of
from tests.integration.shim.conftest import StartShim
from tests.integration.waiting import until
from tests.unit.misuses import DAY, MISUSES, Json, Misuse
from workflows.messages import LaunchState

REPORTED_WITHIN = 10.0
AT_A_TIME = 8


def body(kind: str, name: str, spec: Json) -> Object:
    return {"apiVersion": "ai.krateo.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def answer_to(api: KubeClient, namespace: str, name: str, misuse: Misuse) -> str:
    """Where the misuse was reported, and what was said."""
    await api.create(CONFIGS, namespace, body("InferenceConfig", name, misuse.config_spec))
    created = await api.create(RUNS, namespace, body("InferenceRun", name, misuse.run_spec(name)))
    ready = await condition_of(api, namespace, name)
    if ready["status"] == "False":
        return f"config: {ready['message']}"
    result = await launch(launcher_of(api), parse_run(created))
    is_rejected = (result.state, result.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    return f"run: {result.message}" if is_rejected else f"nobody: {result}"


async def condition_of(api: KubeClient, namespace: str, name: str) -> Json:
    """The condition Ready of a config, once the shim has written it."""
    until = time.monotonic() + REPORTED_WITHIN
    while time.monotonic() < until:
        status = (await api.get(CONFIGS, namespace, name)).get("status") or {}
        if found := [one for one in status.get("conditions", []) if one["type"] == "Ready"]:
            return dict(found[0])
        await asyncio.sleep(0.1)
    return {"status": "Unknown"}


async def test_every_misuse_is_reported_within_seconds_with_its_field_and_cause(
    api: KubeClient, namespace: str, start_shim: StartShim
) -> None:
    slots = asyncio.Semaphore(AT_A_TIME)

    async def examine(number: int, misuse: Misuse) -> tuple[str, float]:
        async with slots:
            began = time.monotonic()
            answer = await answer_to(api, namespace, f"misuse-{number}", misuse)
        is_right = (
            answer.startswith(f"{misuse.where}: ")
            and misuse.field in answer
            and misuse.said in answer
        )
        return "" if is_right else f"{misuse.title}: {answer[:300]!r}", time.monotonic() - began

    async with start_shim():
        found = await asyncio.gather(*(examine(number, one) for number, one in enumerate(MISUSES)))
    assert [text for text, _ in found if text] == []
    assert max(seconds for _, seconds in found) < REPORTED_WITHIN


async def test_the_interval_of_a_run_is_in_its_status_and_in_the_memo_of_its_workflow(
    api: KubeClient, namespace: str, start_shim: StartShim, temporal: Client
) -> None:
    async with start_shim():
        stored = await api.create(
            RUNS,
            namespace,
            body("InferenceRun", "day", {"configRef": {"name": "a"}, "interval": DAY}),
        )
        run = parse_run(stored)

        async def status() -> Json:
            return dict((await api.get(RUNS, namespace, "day")).get("status") or {})

        await until(status, lambda found: found.get("phase"))
        assert (await status())["interval"] == {**DAY, "text": f"{DAY['start']}/{DAY['end']}"}
        described = await temporal.get_workflow_handle(run_workflow_id(run.ref)).describe()
        assert (await described.memo())["interval"] == DAY

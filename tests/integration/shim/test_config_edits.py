"""An edit of a config is reported in an Event, if there are runs that it does not affect."""

import asyncio
from typing import Any

import pytest

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, EVENTS
from tests.integration.shim.conftest import StartShim, Until
from tests.integration.shim.runs import create

pytestmark = pytest.mark.thorough

STORAGE = {"input": {"file": {"claimName": "data", "path": "in.jsonl"}}, "output": {"mine": {}}}
STARTED = {"phase": "Running", "reason": "Running", "observedGeneration": 1, "contract": "e30="}
ENDED = {"phase": "Failed", "reason": "InputFailed", "contract": "e30="}


async def create_config(api: KubeClient, namespace: str, name: str = "iris") -> None:
    body = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.CONFIG_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"image": "mine:1", "storage": STORAGE},
    }
    await api.create(CONFIGS, namespace, body)


async def edit_config(api: KubeClient, namespace: str, image: str) -> None:
    await api.patch(CONFIGS, namespace, "iris", {"spec": {"image": image}})


async def events(api: KubeClient, namespace: str) -> list[dict[str, Any]]:
    found = await api.list(EVENTS, namespace, fieldSelector="reason=ConfigChanged")
    return list(found["items"])


async def test_an_edit_names_the_runs_in_progress(
    api: KubeClient, namespace: str, start_shim: StartShim, until: Until
) -> None:
    await create_config(api, namespace)
    for index in range(7):
        await create(api, namespace, f"active-{index}", status=STARTED)
    await create(api, namespace, "suspended", status={**STARTED, "phase": "Suspended", "reason": "Suspended"})
    await create(api, namespace, "ended", status=ENDED)
    await create(api, namespace, "waiting", status={"phase": "Pending", "reason": "ConfigNotReady"})
    await create(api, namespace, "elsewhere", status=STARTED, configRef={"name": "iris", "namespace": "other"})
    await create(api, namespace, "daily", schedule="@daily")

    async def observed(generation: int) -> bool:
        status = (await api.get(CONFIGS, namespace, "iris")).get("status") or {}
        return bool(status.get("observedGeneration") == generation)

    async with start_shim():
        await until(lambda: observed(1))
        assert await events(api, namespace) == []
        await edit_config(api, namespace, "mine:2")
        await until(lambda: observed(2))
    await edit_config(api, namespace, "mine:3")  # while no shim is running
    async with start_shim():
        await until(lambda: observed(3))
        await asyncio.sleep(1)
    first, second = sorted(await events(api, namespace), key=lambda item: str(item["message"]))
    assert first["message"] == (
        "generation 2 does not affect 8 runs in progress, which keep what they started with: active-0, active-1, "
        "active-2, active-3, active-4 and 3 more; to use it, create new runs"
    )
    assert second["message"].startswith("generation 3 does not affect 8 runs")
    assert (first["type"], first["involvedObject"]["kind"], first["involvedObject"]["name"]) == (
        "Normal",
        "InferenceConfig",
        "iris",
    )
    assert first["reportingComponent"] == "inferrun.dev/shim"


async def test_a_credential_in_a_header_is_reported_in_one_event_without_its_value(
    api: KubeClient, namespace: str, start_shim: StartShim, until: Until
) -> None:
    headers = ["Authorization: Bearer canary", "Accept: application/json"]
    call = {"path": "/", "verb": "POST", "endpointRef": {"name": "data"}, "headers": headers}
    kserve = {"modelName": "m", "modelUrl": "http://model", "modelVersion": "v2", "modelInputName": "i"}
    body = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.CONFIG_KIND,
        "metadata": {"name": "iris", "namespace": namespace},
        "spec": {"kserve": kserve, "storage": {**STORAGE, "output": {"krateo": {"api": call}}}},
    }
    await api.create(CONFIGS, namespace, body)

    async def found() -> list[dict[str, Any]]:
        listed = await api.list(EVENTS, namespace, fieldSelector="reason=CredentialInConfig")
        return list(listed["items"])

    async def is_reported() -> bool:
        status = (await api.get(CONFIGS, namespace, "iris")).get("status") or {}
        return bool(status.get("observedGeneration")) and bool(await found())

    for _ in range(2):
        async with start_shim():
            await until(is_reported)
    [event] = await found()
    assert event["type"] == "Warning"
    assert event["message"].startswith(
        "spec.storage.output.krateo.api.headers.0 (Authorization) can be seen by everyone"
    )
    assert "canary" not in str(event)

"""What the shim reports about configs in Events."""

from typing import Any

import pytest

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, EVENTS
from tests.integration.shim.conftest import StartShim
from tests.integration.waiting import until

pytestmark = pytest.mark.thorough

STORAGE = {"input": {"file": {"claimName": "data", "path": "in.jsonl"}}, "output": {"mine": {}}}


async def test_a_credential_in_a_header_is_reported_in_one_event_without_its_value(
    api: KubeClient, namespace: str, start_shim: StartShim
) -> None:
    headers = ["Authorization: Bearer canary", "Accept: application/json"]
    call = {"path": "/", "verb": "POST", "endpointRef": {"name": "data"}, "headers": headers}
    kserve = {
        "modelName": "m",
        "modelUrl": "http://model",
        "modelVersion": "v2",
        "modelInputName": "i",
    }
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

"""Every mistake is rejected by the API server, or reported on the status, with the field."""

import asyncio
import time

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Invalid, KubeError
from inferrun.kube.objects import CONFIGS, RUNS, Object
from tests.integration.crds.manifests import CONFIG
from tests.integration.shim.bad_inputs import BadInput, bad_inputs, known_fields
from tests.integration.shim.conftest import StartShim

pytestmark = pytest.mark.thorough

AT_A_TIME = 4
REPORTED_WITHIN = 90.0
"""On a machine that is busy with something else; otherwise it takes a second."""


def test_there_are_three_hundred_mistakes_and_some_for_every_field() -> None:
    titles = [one.title for one in bad_inputs()]
    assert len(set(titles)) == len(titles) >= 300
    named = {field for one in bad_inputs() for field in one.fields}
    assert known_fields() - named == set()


async def test_every_mistake_is_rejected_or_reported_with_its_field(
    api: KubeClient, namespace: str, start_shim: StartShim
) -> None:
    slots, reported = asyncio.Semaphore(AT_A_TIME), 0

    async def examine(number: int, one: BadInput) -> str:
        async with slots:
            answer = await submit(api, namespace, f"bad-{number}", one)
        if answer is None:
            nonlocal reported
            reported += 1
            answer = await status_text(api, namespace, f"bad-{number}", one)
        return "" if any(field in answer for field in one.fields) else f"{one.title}: {answer[:300]!r}"

    async with start_shim():
        found = await asyncio.gather(*(examine(number, one) for number, one in enumerate(bad_inputs())))
    assert [text for text in found if text] == []
    assert reported > 50


async def submit(api: KubeClient, namespace: str, name: str, one: BadInput) -> str | None:
    """The API server's rejection; None if it accepts the object."""
    body: Object = {"apiVersion": "ai.krateo.io/v1", "kind": one.kind, "metadata": {"name": name}, "spec": one.spec}
    try:
        await api.create(CONFIGS if one.kind == CONFIG else RUNS, namespace, body)
    except Invalid as error:
        return str(error)
    except KubeError as error:
        return f"{type(error).__name__}: {error}"
    return None


async def status_text(api: KubeClient, namespace: str, name: str, one: BadInput) -> str:
    """What the status says in the end."""
    until = time.monotonic() + REPORTED_WITHIN
    resource, text = (CONFIGS if one.kind == CONFIG else RUNS), "nothing"
    while time.monotonic() < until:
        [stored] = (await api.list(resource, namespace, fieldSelector=f"metadata.name={name}"))["items"]
        status = stored.get("status") or {}
        messages = [item for item in status.get("conditions", []) if item["type"] in ("Ready", "Synced")]
        text = " ".join(item.get("message", "") for item in messages)
        if any(field in text for field in one.fields):
            break
        await asyncio.sleep(0.3)
    return text

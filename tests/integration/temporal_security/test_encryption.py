"""With keys, nothing of a run can be read in Temporal, and keys are rotated while the programs
run."""

import base64
import os
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from campaigns.benchmarks.control_plane import ControlPlane
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, RUNS
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.connection import encrypting_converter
from inferrun.temporal.plugin import inferrun_plugin
from tests.integration.chart.conftest import Render
from tests.integration.namespaces.installation import install, running
from tests.integration.waiting import until

pytestmark = pytest.mark.thorough

SECONDS = 90


def write_keys(folder: Path, *, active: str, **keys: bytes) -> None:
    """As a mounted Secret; keys that are not named are removed."""
    folder.mkdir(exist_ok=True)
    for name, key in keys.items():
        (folder / name).write_bytes(base64.b64encode(key) + b"\n")
    (folder / "active").write_text(active)
    for path in folder.iterdir():
        if path.name not in (*keys, "active"):
            path.unlink()


def payloads_in(message: object) -> list[Payload]:
    """Every payload in a message of Temporal's API."""
    if isinstance(message, Payload):
        return [message]
    found: list[Payload] = []
    for descriptor, value in message.ListFields():  # type: ignore[attr-defined]
        if descriptor.message_type is None:
            continue
        is_map = descriptor.message_type.GetOptions().map_entry
        items = value.values() if is_map else [value] if hasattr(value, "ListFields") else value
        found += [
            payload
            for item in items
            if hasattr(item, "ListFields")
            for payload in payloads_in(item)
        ]
    return found


async def keys_used(client: Client, workflow_id: str) -> set[str]:
    """The ids of the keys with which the payloads of a history are encrypted; the encodings of
    those that are not."""
    found = set()
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        # what the SDK itself notes: names and times
        event.marker_recorded_event_attributes.details.pop("data", None)
        for payload in payloads_in(event):
            # an index cannot be encrypted
            is_attribute = payload.metadata.get("type") == b"Keyword"
            if not is_attribute:
                plain = payload.metadata["encoding"] + b" " + payload.data
                found.add(payload.metadata.get("encryption-key-id", plain).decode())
    return found


async def test_nothing_of_a_run_can_be_read_in_temporal_and_keys_are_rotated_without_a_restart(
    *,
    api: KubeClient,
    plane: ControlPlane,
    temporal: Client,
    render: Render,
    namespace: str,
    tmp_path: Path,
) -> None:
    keys, first, second = tmp_path / "keys", os.urandom(32), os.urandom(32)
    write_keys(keys, active="first", first=first)
    canary = f"canary{token_hex(8)}"
    spec = {"image": "absent:1", "storage": {"input": {"own": {}}, "output": {"own": {}}}}
    config = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": {"name": "own"},
        "spec": spec,
    }
    await api.create(CONFIGS, namespace, config)
    release = await install(
        api, plane, render, namespace=namespace, watched=(namespace,), folder=tmp_path
    )
    release = replace(release, settings={"INFERRUN_CODEC_KEYS": str(keys)})
    reader = await Client.connect(
        plane.temporal_address,
        plugins=[inferrun_plugin()],
        data_converter=encrypting_converter(keys),
    )

    async def end(name: str) -> dict[str, object]:
        """Cancel the submission of that id once it has a run, and return what its failure says."""

        async def is_created() -> bool:
            found = (await api.list(RUNS, namespace))["items"]
            return any(
                item["metadata"]["name"] == name and (item.get("status") or {}).get("jobStatus")
                for item in found
            )

        await until(is_created, seconds=SECONDS)
        await api.patch(
            RUNS,
            namespace,
            name,
            {"metadata": {"annotations": {"inferrun.dev/cancel-requested": "true"}}},
        )
        with pytest.raises(WorkflowFailureError) as failure:
            await reader.get_workflow_handle(name).result()
        assert isinstance(failure.value.cause, ApplicationError)
        return dict(failure.value.cause.details[0])

    async def submit(name: str) -> None:
        request = {"namespace": namespace, "configRef": "own", "parameters": {"secret": canary}}
        await reader.start_workflow(WORKFLOW_TYPE, request, id=name, task_queue=namespace)

    async with running(release):
        await submit("one")
        assert (await end("one"))["reason"] == "Cancelled"
        run = (await api.get(RUNS, namespace, "one"))["status"]["workflow"]["id"]
        for workflow_id in ("one", run):
            history = await temporal.get_workflow_handle(workflow_id).fetch_history()
            assert canary not in history.to_json()
            assert base64.b64encode(canary.encode()).decode()[:-4] not in history.to_json()
            assert await keys_used(temporal, workflow_id) == {"first"}
            failure = history.events[-1].workflow_execution_failed_event_attributes.failure
            assert workflow_id == run or (failure.message, failure.stack_trace) == (
                "Encoded failure",
                "",
            )

        write_keys(keys, active="second", first=first, second=second)
        attempts = 0

        async def is_rotated() -> bool:
            nonlocal attempts
            attempts += 1
            await submit(f"two-{attempts}")
            await end(f"two-{attempts}")
            run = (await api.get(RUNS, namespace, f"two-{attempts}"))["status"]["workflow"]["id"]
            return await keys_used(temporal, run) == {"second"}

        await until(is_rotated, seconds=SECONDS)
        assert (await reader.get_workflow_handle("one").describe()).close_time is not None

        # no open workflow needs the first one any more
        write_keys(keys, active="second", second=second)
        await submit("three")
        assert (await end("three"))["reason"] == "Cancelled"

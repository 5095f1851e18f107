"""A copy of a run without its status, as a backup restores it, is not executed; somebody who wants
that has a way."""

import pytest
from temporalio.client import Client

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.resources import InferenceRun, parse_run
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.runs import create, read, workflow_status, write_status
from tests.integration.waiting import until

MARK = "inferrun.dev/started-as"
STRIPPED = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
)
"""What a backup tool leaves out of metadata, besides the status: all that the API server sets, and
owners, whose UIDs change."""


async def restored(api: KubeClient, item: Object) -> InferenceRun:
    """The run as it is after its namespace was lost."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in STRIPPED}
    await api.delete(RUNS, metadata["namespace"], metadata["name"], uid=item["metadata"]["uid"])
    body = {key: value for key, value in item.items() if key != "status"} | {"metadata": metadata}
    return parse_run(await api.create(RUNS, metadata["namespace"], body))


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
async def test_a_run_that_has_started_is_not_executed_again_after_a_restore(
    api: KubeClient, namespace: str, start_shim: StartShim, temporal: Client, *, phase: str
) -> None:
    run = await create(
        api,
        namespace,
        "nightly",
        status={"phase": "Pending", "reason": "JobCreated", "contract": "e30="},
    )
    async with start_shim():
        assert MARK not in (await read(api, run)).metadata.annotations
        await write_status(api, run, phase=phase, reason=phase)
        await until(
            lambda: read(api, run),
            lambda found: found.metadata.annotations.get(MARK) == run.metadata.uid,
        )
        copy = await restored(api, await api.get(RUNS, namespace, "nightly"))
        await until(lambda: read(api, copy), lambda found: found.status.reason == "ExecutedBefore")
        refused = await read(api, copy)
        assert (refused.status.phase, refused.status.contract) == ("Pending", None)
        assert await workflow_status(temporal, copy) is None
        stalled = refused.status.condition("Stalled")
        assert stalled is not None
        assert f"kubectl -n {namespace} annotate inferencerun nightly {MARK}-" in (
            refused.status.message or ""
        )

        await api.patch(RUNS, namespace, "nightly", {"metadata": {"annotations": {MARK: None}}})
        await until(lambda: workflow_status(temporal, copy), lambda found: found is not None)


async def test_a_restored_outcome_replaces_the_refusal(
    api: KubeClient, namespace: str, start_shim: StartShim
) -> None:
    """As Velero does with --status-include-resources: it creates the run, then writes its
    status."""
    copy = await create(api, namespace, "nightly", annotations={MARK: "another"})
    async with start_shim():
        await until(lambda: read(api, copy), lambda found: found.status.reason == "ExecutedBefore")
        await write_status(api, copy, phase="Succeeded", reason="Succeeded")
        await until(
            lambda: read(api, copy),
            lambda found: found.metadata.annotations[MARK] == copy.metadata.uid,
        )
        assert (await read(api, copy)).status.phase == "Succeeded"


async def test_a_run_that_is_left_alone_and_a_schedule_are_not_marked(
    api: KubeClient, namespace: str, start_shim: StartShim
) -> None:
    paused = await create(
        api,
        namespace,
        "paused",
        annotations={"krateo.io/paused": "true"},
        status={"phase": "Succeeded"},
    )
    schedule = await create(
        api, namespace, "daily", schedule="@daily", status={"phase": "Scheduled"}
    )
    ended = await create(api, namespace, "ended", status={"phase": "Succeeded"})
    async with start_shim():
        await until(lambda: read(api, ended), lambda found: MARK in found.metadata.annotations)
        for other in (paused, schedule):
            assert MARK not in (await read(api, other)).metadata.annotations

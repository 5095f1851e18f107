"""An edit is signalled to the run's workflow until it is acknowledged, and then never again."""

import asyncio
import json

import pytest
from temporalio.client import Client

from control.cluster.events import EventRecorder
from control.metrics import Metrics
from control.search_attributes import SearchAttributes
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.names import run_workflow_id
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from operator_shim.run_loop import RunLoop
from operator_shim.schedules import Schedules
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.runs import create, edit, read, signals, workflow_status, write_status
from tests.integration.waiting import until
from tests.unit.operator_shim.shown_runs import ShownRuns

LAUNCHED = {"phase": "Running", "reason": "Running", "observedGeneration": 1, "contract": "e30="}


async def test_an_edit_is_signalled_once_however_often_the_runs_are_resynced(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    run = await create(api, namespace, "run", status=LAUNCHED, timeoutSeconds=60)
    async with start_shim(resync_seconds=1):
        await edit(api, run, timeoutSeconds=90)
        await until(lambda: read(api, run), lambda found: found.status.observed_generation == 2)
        await asyncio.sleep(4)
        await write_status(api, run, message="a change of the status alone")
        await asyncio.sleep(1)
    async with start_shim(resync_seconds=1):  # a shim that knows nothing of the first one's signals
        await asyncio.sleep(3)
    assert await signals(temporal, run) == ["spec_changed"]


async def test_an_edit_before_a_restart_is_signalled_afterwards(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    run = await create(api, namespace, "run", status=LAUNCHED, timeoutSeconds=60)
    await edit(api, run, timeoutSeconds=90)
    async with start_shim():
        await until(lambda: read(api, run), lambda found: found.status.observed_generation == 2)
    assert await signals(temporal, run) == ["spec_changed"]


@pytest.mark.parametrize("contract", ["e30=", None], ids=["started", "created suspended"])
async def test_a_resumption_is_signalled_with_the_values_of_the_spec(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    start_shim: StartShim,
    contract: str | None,
) -> None:
    status = {**LAUNCHED, "phase": "Suspended", "reason": "Suspended", "contract": contract}
    run = await create(api, namespace, "run", status=status, timeoutSeconds=60, suspend=True)
    async with start_shim():
        await edit(api, run, suspend=False)
        await until(lambda: read(api, run), lambda found: found.status.observed_generation == 2)
    assert await signalled(temporal, run) == [{"timeout_seconds": 60, "suspend": False}]


class OvertakenSignals(RunWorkflows):
    """While the first signal is sent, the spec is edited again and LaunchJob reads and acknowledges
    that spec."""

    def overtake(self, api: KubeClient) -> None:
        self.api: KubeClient | None = api

    async def spec_changed(self, run: InferenceRun) -> None:
        if self.api is not None:
            api, self.api = self.api, None
            newer = await edit(api, run, timeoutSeconds=120)
            await write_status(api, run, observedGeneration=newer.metadata.generation)
        await super().spec_changed(run)


async def test_a_signal_that_a_newer_spec_has_overtaken_is_followed_by_that_spec(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    far_side: Client,
    schedules: TemporalSchedules,
) -> None:
    workflows = OvertakenSignals(
        far_side,
        installation=namespace,
        task_queue=namespace,
        attributes=SearchAttributes(far_side, installation=namespace),
    )
    workflows.overtake(api)
    run = await create(api, namespace, "run", status=LAUNCHED, timeoutSeconds=60)
    await edit(api, run, timeoutSeconds=90)
    seen = await api.get(RUNS, namespace, "run")
    watch = ShownRuns()
    events = EventRecorder(api, reporter="tests", component="shim")
    loop = RunLoop(
        api,
        watch,
        workflows=workflows,
        schedules=Schedules(RunStore(api), schedules, watch=watch, events=events),
        defaults=Defaults,
        workers=1,
        metrics=Metrics(),
    )
    task = asyncio.create_task(loop.run())
    watch.show((namespace, "run"), seen)

    async def both_are_sent() -> bool:
        return (
            await workflow_status(temporal, run) is not None
            and len(await signals(temporal, run)) == 2
        )

    await until(both_are_sent)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [change["timeout_seconds"] for change in await signalled(temporal, run)] == [90, 120]


async def signalled(temporal: Client, run: InferenceRun) -> list[dict[str, object]]:
    """The content of the signals that the run's workflow has received."""
    history = await temporal.get_workflow_handle(run_workflow_id(run.ref)).fetch_history()
    sent = [
        event.workflow_execution_signaled_event_attributes.input.payloads
        for event in history.events
    ]
    return [json.loads(payloads[0].data) for payloads in sent if payloads]


async def test_a_run_that_nobody_has_read_needs_no_signal(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    run = await create(api, namespace, "run", timeoutSeconds=60)
    await edit(api, run, timeoutSeconds=90)
    async with start_shim(resync_seconds=1):
        await until(lambda: read(api, run), lambda found: found.status.reason == "Accepted")
        await asyncio.sleep(2)
        # LaunchJob will acknowledge what it reads
        assert (await read(api, run)).status.observed_generation is None
        assert await workflow_status(temporal, run) is not None
        assert await signals(temporal, run) == []


async def test_a_run_that_waits_for_its_config_is_checked_again_after_a_restart(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    """The config may have been created between the last event that the shim saw and its end."""
    waiting = await create(
        api, namespace, "waiting", status={"phase": "Pending", "reason": "ConfigNotFound"}
    )
    accepted = await create(
        api, namespace, "accepted", status={"phase": "Pending", "reason": "Accepted"}
    )
    async with start_shim():

        async def are_started() -> bool:
            found = [await workflow_status(temporal, run) for run in (waiting, accepted)]
            return None not in found and bool(await signals(temporal, waiting))

        await until(are_started)
    assert await signals(temporal, waiting) == ["look_again"]
    assert await signals(temporal, accepted) == []


async def test_a_request_to_cancel_a_schedule_is_answered_with_what_to_do_instead_once(
    api: KubeClient, namespace: str, start_shim: StartShim
) -> None:
    schedule = await create(api, namespace, "nightly", schedule="0 0 1 1 *")
    async with start_shim(resync_seconds=1):
        request = {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}
        await api.patch(RUNS, namespace, "nightly", {"metadata": {"annotations": request}})

        async def events() -> list[str]:
            selector = f"reason=CancellationIgnored,involvedObject.uid={schedule.metadata.uid}"
            return [
                item["message"]
                for item in (await api.list(EVENTS, namespace, fieldSelector=selector))["items"]
            ]

        await until(events)
        await asyncio.sleep(3)
        [message] = await events()
    await api.delete(RUNS, namespace, "nightly", uid=schedule.metadata.uid)
    kubectl = f"kubectl -n {namespace}"
    assert (
        f"""{kubectl} patch inferencerun nightly --type=merge -p '{{"spec":{{"suspend":true}}}}'"""
        in message
    )
    label = f"{wellknown.LABEL_SCHEDULE_UID}={schedule.metadata.uid}"
    assert (
        f"{kubectl} annotate inferenceruns -l {label} {wellknown.ANNOTATION_CANCEL_REQUESTED}=true"
        in message
    )

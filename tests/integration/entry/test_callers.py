"""What a program with access to the Temporal namespace cannot do, on a real Temporal server and a real API server."""

import asyncio
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleSpec,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.submitting.delete_schedule import ScheduleDeleter
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, JOBS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.names import cleanup_workflow_id, recover_workflow_id, run_workflow_id, schedule_id
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from operator_shim.workflows import RunWorkflows
from tests.integration.shim.conftest import Until
from worker.composition import WorkerProcess
from workflows import activity_options, messages
from workflows.messages import CleanupInput, DeleteScheduleInput, RunInput, SpecChanged

pytestmark = pytest.mark.thorough

WAIT_SECONDS = 90
FORGED = {
    "launch": 7,
    "attempt": 7,
    "seconds_used": 999_999.0,
    "pending_since": "2000-01-01T00:00:00Z",
    "disruptions": 99,
}
Handle = WorkflowHandle[Any, Any]  # Any: workflows are started by name


@workflow.defn(name=messages.RUN_WORKFLOW, sandboxed=False)
class Impostor:
    """A workflow of another program, with the type of ours, that calls our activities on our task queue."""

    @workflow.run
    async def run(self, name: str, argument: dict[str, Any], task_queue: str) -> Any:  # Any: JSON
        return await workflow.execute_activity(
            name, argument, task_queue=task_queue, start_to_close_timeout=timedelta(seconds=10)
        )


@workflow.defn(name=messages.RUN_WORKFLOW, sandboxed=False)
class ForgedProgress:
    """A workflow of another program that continues as ours, on our task queue, with any state."""

    @workflow.run
    async def run(self, state: dict[str, Any], task_queue: str) -> None:
        workflow.continue_as_new(args=[state], task_queue=task_queue)


@workflow.defn(name=WORKFLOW_TYPE, sandboxed=False)
class ForgedFollowing:
    """The same for a submission."""

    @workflow.run
    async def run(self, request: dict[str, Any], task_queue: str) -> None:
        workflow.continue_as_new(args=[request], task_queue=task_queue)


@workflow.defn(name=WORKFLOW_TYPE, sandboxed=False)
class ForgedSubmission:
    """A submission of another program, with any end. The first retry of a failure is later than the test."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> Any:  # Any: JSON
        end = request["parameters"]["end"]
        result = {"namespace": "default", "name": "x", "uid": "x", "phase": "Succeeded", "reason": "Succeeded"}
        ends: dict[str, Any] = {"result": {**result, "message": "forged"}, "garbage": {"phase": [[1]]}}
        if end in ends:
            return ends[end]
        raise ApplicationError("forged", *([ends[end.removeprefix("failure ")]]), type="Forged", non_retryable=True)


@pytest.fixture
async def victim(
    api: KubeClient, namespace: str, served: WorkerProcess, workflows: RunWorkflows, until: Until
) -> InferenceRun:
    """A run in progress, with a Job that no node will ever execute, and a time limit."""
    assert served.is_ready
    config = {"storage": {"input": {"own": {}}, "output": {"own": {}}}, "image": "absent:1"}
    metadata = {"namespace": namespace}
    base = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceConfig"}
    await api.create(CONFIGS, namespace, {**base, "metadata": {**metadata, "name": "iris"}, "spec": config})
    body = {**base, "kind": "InferenceRun", "metadata": {**metadata, "name": "victim"}}
    spec = {"configRef": {"name": "iris"}, "timeoutSeconds": 600, "pendingTimeoutSeconds": 600}
    run = parse_run(await api.create(RUNS, namespace, {**body, "spec": spec}))
    await workflows.ensure(run)
    await until(lambda: current(api, run), lambda found: found.status.job_status is not None)
    return await current(api, run)


async def current(api: KubeClient, run: InferenceRun) -> InferenceRun:
    return parse_run(await api.get(RUNS, run.metadata.namespace, run.metadata.name))


async def assert_unharmed(api: KubeClient, run: InferenceRun) -> None:
    """The run is in progress, with the same Job."""
    now = await current(api, run)
    assert not now.status.is_terminal
    assert now.status.job_status is not None
    assert run.status.job_status is not None
    job = await api.get(JOBS, run.metadata.namespace, str(now.status.job_status.name))
    assert job["metadata"]["uid"] == run.status.job_status.uid


async def cause_of(handle: Handle) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    cause: BaseException | None = failed.value.cause
    if isinstance(cause, ActivityError):
        cause = cause.cause
    assert isinstance(cause, ApplicationError)
    return cause


def some_id() -> str:
    return f"attack-{uuid.uuid4().hex[:8]}"


async def test_a_run_cannot_be_executed_under_another_id(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun
) -> None:
    forged = RunInput.model_validate({**victim.ref.model_dump(), **FORGED})
    handle = await temporal.start_workflow(messages.RUN_WORKFLOW, forged, id=some_id(), task_queue=namespace)
    assert (await cause_of(handle)).type == Reason.REQUEST_REFUSED
    await assert_unharmed(api, victim)


async def test_a_forged_clock_does_not_end_a_run(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun
) -> None:
    forged = RunInput.model_validate({**victim.ref.model_dump(), **FORGED})
    own = recover_workflow_id(run_workflow_id(victim.ref))
    handle = await temporal.start_workflow(messages.RUN_WORKFLOW, forged, id=own, task_queue=namespace)
    await asyncio.sleep(3)
    await assert_unharmed(api, victim)
    await handle.terminate()


async def test_a_state_that_another_program_continues_with_does_not_end_a_run(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun
) -> None:
    """A workflow may continue as new on another task queue than its own."""
    forged = {**victim.ref.model_dump(), **FORGED}
    own, queue = recover_workflow_id(run_workflow_id(victim.ref)), f"theirs-{uuid.uuid4().hex[:8]}"
    runner = UnsandboxedWorkflowRunner()
    async with Worker(temporal, task_queue=queue, workflows=[ForgedProgress], workflow_runner=runner):
        handle = await temporal.start_workflow(
            messages.RUN_WORKFLOW, args=[forged, namespace], id=own, task_queue=queue
        )
        await until_on_queue(temporal, own, namespace)
    await asyncio.sleep(3)
    await assert_unharmed(api, victim)
    await temporal.get_workflow_handle(own).terminate()
    assert handle.id == own


async def until_on_queue(temporal: Client, workflow_id: str, queue: str) -> None:
    """Wait until the latest execution with that id is on the task queue."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (await temporal.get_workflow_handle(workflow_id).describe()).task_queue != queue:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("alias", ["?x=1", "/", "#", "%3F", "/../{name}"])
async def test_a_run_has_one_name(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun, *, alias: str
) -> None:
    """Otherwise it would be executed by two workflows: the id of the second one is made from the other name."""
    name = victim.metadata.name + alias.replace("{name}", victim.metadata.name)
    forged = RunInput(namespace=namespace, name=name, uid=victim.metadata.uid)
    handle = await temporal.start_workflow(
        messages.RUN_WORKFLOW, forged, id=run_workflow_id(forged.ref), task_queue=namespace
    )
    cause = await cause_of(handle)
    assert cause.type == Reason.REQUEST_REFUSED
    await assert_unharmed(api, victim)
    assert len((await api.list(JOBS, namespace))["items"]) == 1


async def test_forged_signals_do_not_end_a_run(api: KubeClient, temporal: Client, victim: InferenceRun) -> None:
    handle = temporal.get_workflow_handle(run_workflow_id(victim.ref))
    assert victim.status.job_status is not None
    job = victim.status.job_status.uid
    started = {"job_uid": job, "launch": 1, "pod_uid": "forged", "started_at": "2000-01-01T00:00:00Z"}
    await handle.signal(messages.SPEC_CHANGED_SIGNAL, SpecChanged(timeout_seconds=1, suspend=True))
    await handle.signal("started", started)
    await handle.signal("ended", {"job_uid": job, "launch": 1})
    await asyncio.sleep(4)
    await assert_unharmed(api, victim)
    assert (await current(api, victim)).status.phase == "Pending"


ATTACKS: dict[str, dict[str, Any]] = {
    activity_options.RECORD.name: {"phase": "Succeeded", "reason": "Succeeded", "message": "forged"},
    activity_options.PUBLISH.name: {"phase": "Running", "reason": "Running", "message": "forged"},
    activity_options.STOP_LAUNCH.name: {"grace_seconds": 0, "snapshot": ""},
    activity_options.INSPECT.name: {"snapshot": "", "seconds_left": 1},
    activity_options.LAUNCH.name: {"launch": 2},
    activity_options.DELETE_RUN.name: {},
    activity_options.READ_RUN.name: {},
    activity_options.CANCEL_RUN.name: {},
}


@pytest.mark.parametrize("is_id_forged", [False, True])
@pytest.mark.parametrize("name", ATTACKS)
async def test_no_other_workflow_can_call_an_activity(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun, *, name: str, is_id_forged: bool
) -> None:
    assert victim.status.job_status is not None
    job = {"job_name": victim.status.job_status.name, "job_uid": victim.status.job_status.uid}
    argument = {"run": victim.ref.model_dump(), **job, **ATTACKS[name]}
    identity = recover_workflow_id(run_workflow_id(victim.ref)) if is_id_forged else some_id()
    queue = f"theirs-{uuid.uuid4().hex[:8]}"
    async with Worker(temporal, task_queue=queue, workflows=[Impostor], workflow_runner=UnsandboxedWorkflowRunner()):
        handle = await temporal.start_workflow(
            messages.RUN_WORKFLOW, args=[name, argument, namespace], id=identity, task_queue=queue
        )
        assert (await cause_of(handle)).type == Reason.REQUEST_REFUSED
    await assert_unharmed(api, victim)


async def test_a_cleanup_by_hand_deletes_no_run_in_progress(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun
) -> None:
    argument = CleanupInput(run=victim.ref, delay_seconds=0)
    for identity in (some_id(), cleanup_workflow_id(run_workflow_id(victim.ref))):
        handle = await temporal.start_workflow(messages.CLEANUP_WORKFLOW, argument, id=identity, task_queue=namespace)
        assert (await cause_of(handle)).type == Reason.REQUEST_REFUSED
    await assert_unharmed(api, victim)


async def test_the_front_door_leads_only_to_the_namespaces_that_are_served(
    temporal: Client, namespace: str, served: WorkerProcess
) -> None:
    assert served.is_ready
    request = {"namespace": "kube-system", "configRef": "iris"}
    handle = await temporal.start_workflow(WORKFLOW_TYPE, request, id=some_id(), task_queue=namespace)
    cause = await cause_of(handle)
    assert cause.type == Reason.REQUEST_REFUSED
    assert "not served by this installation" in str(cause)


async def test_nobody_can_follow_and_cancel_the_run_of_somebody_else(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun
) -> None:
    following = {"name": victim.metadata.name, "uid": victim.metadata.uid}
    request = {"namespace": namespace, "configRef": "iris", "following": following}
    handle = await temporal.start_workflow(WORKFLOW_TYPE, request, id=some_id(), task_queue=namespace)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    await assert_unharmed(api, victim)
    assert "inferrun.dev/cancel-requested" not in (await current(api, victim)).metadata.annotations


async def test_nobody_can_continue_with_following_the_run_of_somebody_else(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun, until: Until
) -> None:
    """It becomes a request like any other."""
    following = {"name": victim.metadata.name, "uid": victim.metadata.uid}
    request = {"namespace": namespace, "configRef": "absent", "following": following}
    identity, queue = some_id(), f"theirs-{uuid.uuid4().hex[:8]}"
    runner = UnsandboxedWorkflowRunner()
    async with Worker(temporal, task_queue=queue, workflows=[ForgedFollowing], workflow_runner=runner):
        await temporal.start_workflow(WORKFLOW_TYPE, args=[request, namespace], id=identity, task_queue=queue)
        await until_on_queue(temporal, identity, namespace)
    await until(
        lambda: api.list(RUNS, namespace),
        lambda found: identity in [item["metadata"]["name"] for item in found["items"]],
    )
    await temporal.get_workflow_handle(identity).cancel()
    own = parse_run(await api.get(RUNS, namespace, identity))
    await until(lambda: current(api, own), lambda found: "inferrun.dev/cancel-requested" in found.metadata.annotations)
    await assert_unharmed(api, victim)
    assert "inferrun.dev/cancel-requested" not in (await current(api, victim)).metadata.annotations


@pytest.mark.parametrize("end", ["result", "garbage", "failure result", "failure garbage"])
async def test_the_end_of_a_submission_that_another_program_executed_is_not_used(
    api: KubeClient, temporal: Client, namespace: str, served: WorkerProcess, until: Until, *, end: str
) -> None:
    """Whoever knows an id that a program will use could otherwise tell it that its run succeeded, or keep it waiting."""
    assert served.is_ready
    request = {"namespace": namespace, "configRef": "absent", "parameters": {"end": end}}
    identity, queue = some_id(), f"theirs-{uuid.uuid4().hex[:8]}"
    runner = UnsandboxedWorkflowRunner()
    async with Worker(temporal, task_queue=queue, workflows=[ForgedSubmission], workflow_runner=runner):
        forged = await temporal.start_workflow(WORKFLOW_TYPE, request, id=identity, task_queue=queue)
        with suppress(WorkflowFailureError):
            await asyncio.wait_for(forged.result(), WAIT_SECONDS)

    async def is_listed() -> bool:
        query = f"WorkflowId = '{identity}' AND ExecutionStatus != 'Running'"
        return (await temporal.count_workflows(query)).count == 1

    await until(is_listed)
    handle = await temporal.start_workflow(WORKFLOW_TYPE, request, id=identity, task_queue=namespace)
    await until(
        lambda: api.list(RUNS, namespace),
        lambda found: identity in [item["metadata"]["name"] for item in found["items"]],
    )
    assert (await handle.describe()).close_time is None
    await handle.terminate()


UNREADABLE = {
    "no encoding": Payload(data=b"{"),
    "not JSON": Payload(metadata={"encoding": b"json/plain"}, data=b"{"),
    "nested": Payload(metadata={"encoding": b"json/plain"}, data=b"[" * 60_000),
    "unknown": Payload(metadata={"encoding": b"binary/unknown"}, data=b"x"),
    "encrypted": Payload(metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"k1"}, data=b"x" * 40),
    "protobuf": Payload(
        metadata={"encoding": b"json/protobuf", "messageType": b"temporal.api.common.v1.Payload"}, data=b"[1"
    ),
    "binary protobuf": Payload(
        metadata={"encoding": b"binary/protobuf", "messageType": b"temporal.api.common.v1.Payload"}, data=b"\xff"
    ),
}


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_a_signal_that_cannot_be_read_does_not_stop_a_run(
    api: KubeClient, temporal: Client, victim: InferenceRun, until: Until, *, kind: str
) -> None:
    handle = temporal.get_workflow_handle(run_workflow_id(victim.ref))
    for signal in ("ended", "started", messages.SPEC_CHANGED_SIGNAL, messages.LOOK_AGAIN_SIGNAL, "unknown"):
        await handle.signal(signal, RawValue(UNREADABLE[kind]))
    await handle.cancel()
    await until(lambda: current(api, victim), lambda found: found.status.is_terminal)


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_a_request_that_cannot_be_read_fails(
    temporal: Client, namespace: str, served: WorkerProcess, *, kind: str
) -> None:
    assert served.is_ready
    handle = await temporal.start_workflow(
        WORKFLOW_TYPE, RawValue(UNREADABLE[kind]), id=some_id(), task_queue=namespace
    )
    assert (await cause_of(handle)).type == Reason.REQUEST_REFUSED


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_a_submitter_whose_request_cannot_be_read_does_not_keep_a_run_from_ending(  # noqa: PLR0917
    api: KubeClient,
    temporal: Client,
    namespace: str,
    victim: InferenceRun,
    workflows: RunWorkflows,
    until: Until,
    *,
    kind: str,
) -> None:
    identity = some_id()
    await temporal.start_workflow(
        WORKFLOW_TYPE, RawValue(UNREADABLE[kind]), id=identity, task_queue=f"theirs-{uuid.uuid4().hex}"
    )
    annotations = {"inferrun.dev/submitted-by": identity}
    await api.patch(RUNS, namespace, victim.metadata.name, {"metadata": {"annotations": annotations}})
    await workflows.cancel(victim.ref)

    async def is_closed() -> bool:
        found = await temporal.get_workflow_handle(run_workflow_id(victim.ref)).describe()
        return found.close_time is not None

    await until(is_closed)


@pytest.mark.parametrize("has_time", [False, True])
async def test_parent_does_not_start_a_run_of_a_schedule(
    api: KubeClient, temporal: Client, namespace: str, victim: InferenceRun, *, has_time: bool
) -> None:
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {"name": "yearly", "namespace": namespace},
    }
    spec = {"configRef": victim.spec.config_ref.model_dump(exclude_none=True), "schedule": "0 0 1 1 *"}
    schedule = parse_run(await api.create(RUNS, namespace, {**body, "spec": spec}))
    request = {"namespace": namespace, "parent": {"name": "yearly", "uid": schedule.metadata.uid}}
    key = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
    times = TypedSearchAttributes([SearchAttributePair(key, datetime.now(UTC))] if has_time else [])
    handle = await temporal.start_workflow(
        WORKFLOW_TYPE, request, id=some_id(), task_queue=namespace, search_attributes=times
    )
    cause = await cause_of(handle)
    assert (cause.type, "parent" in str(cause)) == (Reason.REQUEST_REFUSED, True)
    selector = f"inferrun.dev/schedule-uid={schedule.metadata.uid}"
    assert (await api.list(RUNS, namespace, labelSelector=selector))["items"] == []


@pytest.mark.parametrize("submitter", ["other", "x" * 5000, "", "\n", "inferencerun/default/a/b"])
async def test_a_forged_submitter_is_not_signalled_and_does_not_keep_the_outcome_from_being_recorded(  # noqa: PLR0917
    api: KubeClient,
    temporal: Client,
    namespace: str,
    victim: InferenceRun,
    workflows: RunWorkflows,
    until: Until,
    *,
    submitter: str,
) -> None:
    identity = some_id() if submitter == "other" else submitter
    if submitter == "other":  # a workflow of another team, whatever its type
        await temporal.start_workflow("Theirs", id=identity, task_queue=f"theirs-{uuid.uuid4().hex}")
    annotations = {"inferrun.dev/submitted-by": identity}
    await api.patch(RUNS, namespace, victim.metadata.name, {"metadata": {"annotations": annotations}})

    await workflows.cancel(victim.ref)

    async def has_ended() -> bool:
        found = temporal.get_workflow_handle(run_workflow_id(victim.ref))
        is_closed = (await found.describe()).close_time is not None
        return is_closed and (await current(api, victim)).status.is_terminal

    await until(has_ended)
    if submitter == "other":
        history = await temporal.get_workflow_handle(identity).fetch_history()
        assert not [event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")]


async def test_a_schedule_with_a_memo_that_cannot_be_read_is_left_alone(
    temporal: Client, api: KubeClient, namespace: str
) -> None:
    """Anybody with access to the Temporal namespace can create one under the id of ours."""
    parent = RunRef(namespace=namespace, name="nightly", uid=str(uuid.uuid4()))
    unreadable = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{"))
    foreign = Schedule(
        action=ScheduleActionStartWorkflow(WORKFLOW_TYPE, {}, id="foreign", task_queue=namespace),
        spec=ScheduleSpec(),
    )
    handle = await temporal.create_schedule(schedule_id(parent), foreign, memo={"installation": unreadable})
    deleter = ScheduleDeleter(temporal, RunStore(api), installation=namespace)
    async with asyncio.timeout(WAIT_SECONDS):
        await deleter.delete_schedule(DeleteScheduleInput(parent=parent))
        assert (await handle.describe()).id == schedule_id(parent)
        await handle.delete()

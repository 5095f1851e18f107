"""Attacks by somebody who may start workflows in the Temporal namespace."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleSpec,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue
from temporalio.service import RPCError
from temporalio.worker import Worker

from campaigns.attacks.forger import ContinuedRun, ForgeActivity, ForgedSubmission
from campaigns.attacks.victim import Victim
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef
from tests.e2e.stage import Object, Space, run

QUEUE = "inferrun"


@pytest.fixture
async def forge(caller: Client) -> AsyncIterator[Any]:  # Any: an async function with a free-form argument
    """Executes an activity of the product with any argument; returns its result. Raises WorkflowFailureError."""
    queue = f"forger-{uuid.uuid4().hex[:8]}"

    async def execute(activity: str, argument: Object, lane: str = "") -> Any:  # Any: plain JSON
        target = f"{QUEUE}-{lane}" if lane else QUEUE
        return await caller.execute_workflow(
            ForgeActivity.run, args=[activity, target, argument], id=f"forge-{uuid.uuid4().hex}", task_queue=queue
        )

    async with Worker(caller, task_queue=queue, workflows=[ForgeActivity]):
        yield execute


def new_run(victim: Victim, **spec: Any) -> RunRef:  # Any: fields of the spec
    """A run of the victim that is running."""
    name = f"attacked-{uuid.uuid4().hex[:6]}"
    victim.space.apply(run(name, "actor", **spec))
    victim.space.wait_for(name, phase="Running", seconds=60)
    return ref_of(victim.space, name)


def ref_of(space: Space, name: str) -> RunRef:
    found = space.get("inferencerun", name)
    assert found is not None
    return RunRef(namespace=space.name, name=name, uid=found["metadata"]["uid"])


def job_of(victim: Victim, ref: RunRef) -> Object:
    [job] = victim.space.items("jobs", f"inferrun.dev/run-uid={ref.uid}")
    return job


def expect_only(victim: Victim, ref: RunRef, job: Object) -> None:
    """The run has had no other Job. This one may have been deleted: the victim's Jobs have a short time to live."""
    uid = job["metadata"]["uid"]
    assert victim.space.status(ref.name)["jobStatus"]["uid"] == uid
    assert {item["metadata"]["uid"] for item in victim.space.items("jobs", f"inferrun.dev/run-uid={ref.uid}")} <= {uid}


SLEEPING = {"parameters": {"sleep": "15"}}


@pytest.mark.parametrize("identity", ["theirs", "own"])
async def test_a_job_of_somebody_else_is_not_stopped(tenant: Space, victim: Victim, forge: Any, identity: str) -> None:
    """Another tenant's Job cannot be stopped, whether with its own identity or with that of a run that the attacker owns."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    job, claimed = job_of(victim, ref)["metadata"], ref.model_dump()
    if identity == "own":
        await asyncio.to_thread(tenant.apply, run("own", "actor", parameters={"sleep": "60"}))
        await asyncio.to_thread(tenant.wait_for, "own", phase="Running", seconds=60)
        claimed = {**ref_of(tenant, "own").model_dump(), "namespace": victim.space.name}
    argument = {"run": claimed, "job_name": job["name"], "job_uid": job["uid"], "grace_seconds": 0, "snapshot": ""}
    with pytest.raises(WorkflowFailureError):
        await forge("StopLaunch", argument, "stop")
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=60)


@pytest.mark.parametrize(
    ("activity", "fields"),
    [
        ("RecordOutcome", {"phase": "Failed", "reason": "Cancelled", "message": "forged"}),
        (
            "RecordOutcome",
            {"phase": "Succeeded", "reason": "Succeeded", "message": "forged", "delivery": "ExactlyOnce"},
        ),
        ("PublishStatus", {"phase": "Pending", "reason": "RetryBackoff", "message": "forged"}),
        ("EditRun", {"edit": "cancel"}),
        ("EditRun", {"edit": "suspend"}),
        ("DeleteRun", {}),
        ("LaunchJob", {"launch": 7, "attempt": 7}),
    ],
    ids=["record failure", "record success", "publish", "cancel", "suspend", "delete", "launch"],
)
async def test_an_activity_is_refused_to_a_foreign_workflow(
    victim: Victim, forge: Any, activity: str, fields: Object
) -> None:
    """Activities reject callers that are not the run's own workflow."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    job = job_of(victim, ref)
    with pytest.raises(WorkflowFailureError):
        await forge(activity, {"run": ref.model_dump(), **fields})
    status = await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=60)
    assert "forged" not in str(status)
    expect_only(victim, ref, job)


@pytest.mark.parametrize("sleep", ["15", "0"], ids=["active", "finished"])
async def test_a_cleanup_started_by_hand_deletes_nothing(victim: Victim, caller: Client, sleep: str) -> None:
    """A cleanup workflow that is started by hand deletes nothing."""
    name = f"kept-{uuid.uuid4().hex[:6]}"
    await asyncio.to_thread(victim.space.apply, run(name, "actor", parameters={"sleep": sleep}))
    phase = "Running" if sleep == "15" else "Succeeded"
    await asyncio.to_thread(victim.space.wait_for, name, phase=phase, seconds=60)
    ref = ref_of(victim.space, name)
    argument = {"run": ref.model_dump(), "delay_seconds": 0}
    handle = await caller.start_workflow("InferenceRunCleanup", argument, id=f"x-{uuid.uuid4().hex}", task_queue=QUEUE)
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 30)
    kept = victim.space.get("inferencerun", name)
    assert kept is not None
    assert kept["metadata"]["uid"] == ref.uid
    assert "deletionTimestamp" not in kept["metadata"]


@pytest.mark.parametrize(
    "forged",
    [
        {"seconds_used": 1e6},
        {"pending_since": "2020-01-01T00:00:00Z"},
        {"attempt": 99, "launch": 99},
        {"disruptions": 1000},
    ],
    ids=["clock", "pending", "attempts", "disruptions"],
)
async def test_a_run_workflow_with_a_forged_state_does_not_end_the_run(
    victim: Victim, caller: Client, forged: Object
) -> None:
    """A run workflow that is started with forged state cannot end the run."""
    limits = {"timeoutSeconds": 3600, "pendingTimeoutSeconds": 3600}
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING, **limits)
    job = job_of(victim, ref)
    argument = {**ref.model_dump(), **forged}
    handle = await caller.start_workflow("InferenceRun", argument, id=f"x-{uuid.uuid4().hex}", task_queue=QUEUE)
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=90)
    expect_only(victim, ref, job)
    if (await handle.describe()).close_time is None:
        await handle.terminate()


@pytest.fixture
async def theirs(caller: Client) -> AsyncIterator[str]:
    """The task queue of a worker of somebody else, whose workflows have the types of ours."""
    queue = f"theirs-{uuid.uuid4().hex[:8]}"
    async with Worker(caller, task_queue=queue, workflows=[ContinuedRun, ForgedSubmission]):
        yield queue


async def test_a_state_that_another_program_continues_with_does_not_end_the_run(
    victim: Victim, caller: Client, theirs: str
) -> None:
    """Continuing as new with forged state cannot end the run."""
    limits = {"timeoutSeconds": 3600, "pendingTimeoutSeconds": 3600}
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING, **limits)
    job = job_of(victim, ref)
    forged = {"seconds_used": 1e6, "pending_since": "2020-01-01T00:00:00Z", "disruptions": 99}
    recovery = recover_workflow_id(run_workflow_id(ref))
    state = {**ref.model_dump(), **forged}
    await caller.start_workflow("InferenceRun", args=[state, QUEUE], id=recovery, task_queue=theirs)
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=90)
    expect_only(victim, ref, job)


async def test_cancelling_a_submission_that_continues_with_somebody_elses_run_does_not_cancel_it(
    victim: Victim, caller: Client, theirs: str
) -> None:
    """Cancelling a submission that continues as new with another tenant's run does not cancel that run."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    following = {"name": ref.name, "uid": ref.uid}
    request = {"namespace": victim.space.name, "configRef": "actor", "following": following, **SLEEPING}
    identity = f"follows-{uuid.uuid4().hex[:8]}"
    await caller.start_workflow("SubmitInferenceRun", args=[request, QUEUE], id=identity, task_queue=theirs)
    await asyncio.to_thread(victim.space.wait_for, identity, phase="Running", seconds=60)  # a request like any other
    await caller.get_workflow_handle(identity).cancel()
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=60)


async def test_the_result_of_another_program_is_not_that_of_a_run(victim: Victim, caller: Client, theirs: str) -> None:
    """Another program's workflow under a submission's id cannot supply the result of a run."""
    key = f"answered-{uuid.uuid4().hex[:6]}"
    request = {"namespace": victim.space.name, "configRef": "actor", "parameters": {"exit": "5"}}
    forged = await caller.start_workflow("SubmitInferenceRun", request, id=key, task_queue=theirs)
    await asyncio.wait_for(forged.result(), 60)
    await asyncio.sleep(3)  # until Temporal lists it
    handle = await caller.start_workflow("SubmitInferenceRun", request, id=key, task_queue=QUEUE)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 90)
    assert "forged" not in str(failure.value.cause)
    assert victim.space.status(key)["exitCode"] == 5


@pytest.mark.parametrize("suffix", ["?x=1", "/", "%2F", "#x", "/../other"])
async def test_a_run_has_no_second_name(victim: Victim, caller: Client, suffix: str) -> None:
    """A run cannot be executed again under a second spelling of its workflow id."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    job = job_of(victim, ref)
    alias = RunRef(namespace=ref.namespace, name=ref.name + suffix, uid=ref.uid)
    argument = alias.model_dump()
    handle = await caller.start_workflow("InferenceRun", argument, id=run_workflow_id(alias), task_queue=QUEUE)
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 60)
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=60)
    expect_only(victim, ref, job)


@pytest.mark.parametrize(
    ("signal", "fields"),
    [
        ("spec_changed", {"timeout_seconds": 1}),
        ("spec_changed", {"timeout_seconds": 0, "suspend": True}),
        ("started", {"launch": 1, "pod_uid": "x", "started_at": "2020-01-01T00:00:00Z"}),
        ("ended", {"launch": 1}),
        ("ended", {"launch": "one", "job_uid": 5}),
        ("look_again", {}),
    ],
    ids=["limit", "suspend", "started", "ended", "malformed", "look again"],
)
async def test_a_forged_signal_only_makes_a_run_look_again(
    victim: Victim, caller: Client, signal: str, fields: Object
) -> None:
    """A forged signal causes nothing but another look at the Job."""
    ref = await asyncio.to_thread(new_run, victim, timeoutSeconds=3600, **SLEEPING)
    job = job_of(victim, ref)["metadata"]
    handle = caller.get_workflow_handle(run_workflow_id(ref))
    await handle.signal(signal, *([{"job_uid": job["uid"], **fields}] if fields else []))
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=90)


async def test_cancelling_a_submission_that_follows_somebody_elses_run_does_not_cancel_it(
    victim: Victim, caller: Client
) -> None:
    """Cancelling a submission that follows another tenant's run does not cancel that run."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    request = {
        "namespace": victim.space.name,
        "configRef": "actor",
        "following": {"name": ref.name, "uid": ref.uid},
    }
    handle = await caller.start_workflow("SubmitInferenceRun", request, id=f"x-{uuid.uuid4().hex}", task_queue=QUEUE)
    await asyncio.sleep(2)
    if (await handle.describe()).close_time is None:
        await handle.cancel()
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=60)


@pytest.fixture
async def yearly(victim: Victim) -> AsyncIterator[Object]:
    """The request of a schedule of the victim."""
    name = f"yearly-{uuid.uuid4().hex[:6]}"
    await asyncio.to_thread(victim.space.apply, run(name, "actor", schedule="0 0 1 1 *"))
    yield {"namespace": victim.space.name, "parent": {"name": name, "uid": ref_of(victim.space, name).uid}}
    victim.space.kubectl("delete", "inferencerun", name)


def expect_no_run_of(victim: Victim, request: Object) -> None:
    names = [item["metadata"]["name"] for item in victim.space.items("inferenceruns")]
    assert [name for name in names if name.startswith(f"{request['parent']['name']}-")] == []


async def test_a_schedule_does_not_start_a_child_on_request(victim: Victim, yearly: Object, caller: Client) -> None:
    """A scheduled run cannot be created by calling its activity."""
    handle = await caller.start_workflow("SubmitInferenceRun", yearly, id=f"x-{uuid.uuid4().hex}", task_queue=QUEUE)
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(handle.result(), 30)
    expect_no_run_of(victim, yearly)


@pytest.mark.parametrize(
    "argument",
    [
        None,
        [],
        "text",
        {"namespace": "x"},
        {"namespace": "../x", "configRef": "actor"},
        {"namespace": "kube-system", "configRef": {"name": "a", "namespace": 5}},
        {"namespace": "x", "configRef": "actor", "parameters": {"k": "v" * 70_000}},
        {"namespace": "x", "configRef": "actor", **{f"unknown-{number}": 1 for number in range(2000)}},
        {"namespace": "x", "configRef": "actor", "labels": {"inferrun.dev/run-uid": "forged"}},
    ],
    ids=["null", "list", "text", "incomplete", "namespace", "type", "long", "unknown", "label"],
)
async def test_an_invalid_request_fails_with_the_field_and_promptly(caller: Client, argument: object) -> None:
    """An invalid submission fails at once and names the field."""
    handle = await caller.start_workflow("SubmitInferenceRun", argument, id=f"x-{uuid.uuid4().hex}", task_queue=QUEUE)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 15)
    assert getattr(failure.value.cause, "type", "") == "RequestRefused"
    assert len(str(failure.value.cause)) < 4096


DEEP = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'{"a":' * 30_000 + b"1" + b"}" * 30_000))
LARGE = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=json.dumps({"name": "x" * 1_500_000}).encode()))
BINARY = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=bytes(range(256))))


@pytest.mark.parametrize("kind", ["InferenceRun", "InferenceRunCleanup", "SubmitInferenceRun"])
@pytest.mark.parametrize("payload", [DEEP, LARGE, BINARY], ids=["deep", "large", "binary"])
async def test_a_payload_that_is_no_input_disturbs_nobody(
    victim: Victim, caller: Client, kind: str, payload: RawValue
) -> None:
    """Payloads that cannot be decoded do not affect other workflows."""
    handle = await caller.start_workflow(kind, payload, id=f"x-{uuid.uuid4().hex}", task_queue=QUEUE)
    name = f"beside-{uuid.uuid4().hex[:6]}"
    await asyncio.to_thread(victim.space.apply, run(name, "actor"))
    await asyncio.to_thread(victim.space.wait_for, name, phase="Succeeded", seconds=60)
    if (await handle.describe()).close_time is None:
        await handle.terminate()


@pytest.mark.parametrize("signal", ["started", "ended", "look_again", "spec_changed"])
@pytest.mark.parametrize("payload", [DEEP, LARGE], ids=["deep", "large"])
async def test_a_signal_with_a_payload_that_is_no_input_disturbs_no_run(
    victim: Victim, caller: Client, signal: str, payload: RawValue
) -> None:
    """Signals whose payload cannot be decoded do not affect the run."""
    ref = await asyncio.to_thread(new_run, victim, timeoutSeconds=3600, **SLEEPING)
    await caller.get_workflow_handle(run_workflow_id(ref)).signal(signal, payload)
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=90)


async def test_an_update_that_no_workflow_handles_is_refused(victim: Victim, caller: Client) -> None:
    """Unknown updates are rejected."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    handle = caller.get_workflow_handle(run_workflow_id(ref))
    for name in ("finish", "run"):
        with pytest.raises((WorkflowUpdateFailedError, RPCError)):
            await asyncio.wait_for(handle.execute_update(name, {"phase": "Succeeded"}), 90)
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=90)


@pytest.mark.parametrize("update", ["suspend", "resume", "cancel"])
async def test_a_workflow_under_another_id_neither_reads_nor_edits_a_run(
    victim: Victim, caller: Client, update: str
) -> None:
    """A workflow that is given another tenant's run can neither read its progress nor suspend, resume or cancel it."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    identity = f"x-{uuid.uuid4().hex}"
    handle = await caller.start_workflow("InferenceRun", ref.model_dump(), id=identity, task_queue=QUEUE)
    with pytest.raises((WorkflowQueryFailedError, RPCError)):
        await handle.query("progress")
    with pytest.raises((WorkflowUpdateFailedError, RPCError)):
        await asyncio.wait_for(handle.execute_update(update), 60)
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=90)


@pytest.mark.parametrize("payload", [DEEP, LARGE, BINARY], ids=["deep", "large", "binary"])
async def test_an_update_with_a_payload_that_is_no_argument_edits_no_run(
    victim: Victim, caller: Client, payload: RawValue
) -> None:
    """An update that is refused, as its run is not suspended, does not affect the run, whatever its payload."""
    ref = await asyncio.to_thread(new_run, victim, timeoutSeconds=3600, **SLEEPING)
    handle = caller.get_workflow_handle(run_workflow_id(ref))
    with pytest.raises((WorkflowUpdateFailedError, RPCError)):
        await asyncio.wait_for(handle.execute_update("resume", payload), 60)
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=90)


async def test_a_schedule_of_somebody_else_does_not_start_a_child(
    victim: Victim, yearly: Object, caller: Client
) -> None:
    """Another tenant's schedule cannot be made to create a run."""
    identity = f"x-{uuid.uuid4().hex}"
    action = ScheduleActionStartWorkflow("SubmitInferenceRun", yearly, id=identity, task_queue=QUEUE)
    forged = await caller.create_schedule(identity, Schedule(action=action, spec=ScheduleSpec()))
    try:
        await forged.trigger()
        for _ in range(60):
            recent = (await forged.describe()).info.recent_actions
            if recent:
                break
            await asyncio.sleep(0.5)
        assert recent, "the schedule was triggered"
        action_taken = recent[0].action
        assert isinstance(action_taken, ScheduleActionExecutionStartWorkflow)
        started = action_taken.workflow_id
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(caller.get_workflow_handle(started).result(), 30)
    finally:
        await forged.delete()
    expect_no_run_of(victim, yearly)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shards", 0),
        ("shards", 10**9),
        ("shards", "2"),
        ("retryOf", "../x"),
        ("pendingTimeoutSeconds", -1),
        ("timeoutSeconds", True),
        ("canaryRecords", float("inf")),
        ("backoffLimit", 10**400),
        ("dryRun", "yes"),
        ("dryRun", 1),
        ("errorThreshold", "many"),
        ("errorThreshold", 10**400),
        ("errorThreshold", float("nan")),
        ("configRef", {"name": "actor", "nam": "actor"}),
        ("parameters", {"text": "x" * 16_000}),
        ("labels", {"team": "a\u202eb"}),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_a_submission_with_a_value_that_is_not_allowed_fails_with_its_field(
    victim: Victim, caller: Client, field: str, value: object
) -> None:
    """A submission with a forbidden value fails and names the field."""
    request = {"namespace": victim.space.name, "configRef": "actor", field: value}
    handle = await caller.start_workflow("SubmitInferenceRun", request, id=f"x-{uuid.uuid4().hex}", task_queue=QUEUE)
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)
    assert getattr(failure.value.cause, "type", "") == "RequestRefused"
    assert field in str(failure.value.cause)


async def test_terminating_a_workflow_does_not_lose_its_run(victim: Victim, caller: Client) -> None:
    """Terminating a run's workflow does not lose the run."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    job = job_of(victim, ref)
    await caller.get_workflow_handle(run_workflow_id(ref)).terminate()
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=120)
    expect_only(victim, ref, job)


async def test_another_workflow_under_the_id_of_a_run_does_not_lose_it(victim: Victim, caller: Client) -> None:
    """Occupying a run's workflow id does not lose the run."""
    ref = await asyncio.to_thread(new_run, victim, **SLEEPING)
    await caller.get_workflow_handle(run_workflow_id(ref)).terminate()
    squatter = await caller.start_workflow("Squatter", id=run_workflow_id(ref), task_queue=f"nobody-{uuid.uuid4().hex}")
    await asyncio.sleep(3)
    await squatter.terminate()
    await asyncio.to_thread(victim.space.wait_for, ref.name, phase="Succeeded", seconds=180)

"""Attacks by somebody who may start workflows in the Temporal namespace."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
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
    WorkflowHandle,
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
# Any: an async function with a free-form argument
async def forge(caller: Client) -> AsyncIterator[Any]:
    """Executes an activity of the product with any argument; returns its result. Raises
    WorkflowFailureError."""
    queue = f"forger-{uuid.uuid4().hex[:8]}"

    async def execute(activity: str, argument: Object, lane: str = "") -> Any:  # Any: plain JSON
        target = f"{QUEUE}-{lane}" if lane else QUEUE
        return await caller.execute_workflow(
            ForgeActivity.run,
            args=[activity, target, argument],
            id=f"forge-{uuid.uuid4().hex}",
            task_queue=queue,
        )

    async with Worker(caller, task_queue=queue, workflows=[ForgeActivity]):
        yield execute


@dataclass(frozen=True)
class Attacked:
    """A run of the victim that is running, and its Job."""

    space: Space
    ref: RunRef
    job: Object

    def workflow(self, caller: Client) -> WorkflowHandle[Any, Any]:  # Any: started by name
        """The run's own workflow."""
        return caller.get_workflow_handle(run_workflow_id(self.ref))

    async def succeeds(self) -> Object:
        """Wait until the run has succeeded with no other Job, and give its status.

        The Job may have been deleted: the victim's Jobs have a short time to live.
        """
        status = await asyncio.to_thread(
            self.space.wait_for, self.ref.name, phase="Succeeded", seconds=120
        )
        uid = self.job["metadata"]["uid"]
        assert status["jobStatus"]["uid"] == uid
        assert {item["metadata"]["uid"] for item in jobs_of(self.space, self.ref)} <= {uid}
        return status


SLEEPING = {"sleep": "15"}
LONG_LIMITS: Object = {"timeoutSeconds": 3600, "pendingTimeoutSeconds": 3600}


def new_name() -> str:
    return f"x-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def attacked(victim: Victim) -> Attacked:
    """The run that is attacked."""
    name = new_name()
    await asyncio.to_thread(
        victim.space.apply, run(name, "actor", parameters=SLEEPING, **LONG_LIMITS)
    )
    await asyncio.to_thread(victim.space.wait_for, name, phase="Running", seconds=60)
    ref = ref_of(victim.space, name)
    [job] = jobs_of(victim.space, ref)
    return Attacked(victim.space, ref, job)


async def started(caller: Client, workflow: str, argument: object) -> WorkflowHandle[Any, Any]:
    return await caller.start_workflow(workflow, argument, id=new_name(), task_queue=QUEUE)


async def refusal_of(
    handle: WorkflowHandle[Any, Any], *, seconds: float = 30
) -> WorkflowFailureError:
    """The failure with which the workflow ends soon."""
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), seconds)
    return failure.value


async def invalid_request(caller: Client, argument: object) -> str:
    """Why a submission with that argument is refused."""
    cause = (await refusal_of(await started(caller, "SubmitInferenceRun", argument))).cause
    assert getattr(cause, "type", "") == "RequestRefused"
    return str(cause)


async def end(handle: WorkflowHandle[Any, Any]) -> None:
    """Terminate the workflow, if it has not ended."""
    if (await handle.describe()).close_time is None:
        await handle.terminate()


def ref_of(space: Space, name: str) -> RunRef:
    found = space.get("inferencerun", name)
    assert found is not None
    return RunRef(namespace=space.name, name=name, uid=found["metadata"]["uid"])


def jobs_of(space: Space, ref: RunRef) -> list[Object]:
    return space.items("jobs", f"inferrun.dev/run-uid={ref.uid}")


@pytest.mark.parametrize("identity", ["theirs", "own"])
async def test_a_job_of_somebody_else_is_not_stopped(
    tenant: Space, attacked: Attacked, forge: Any, identity: str
) -> None:
    """Another tenant's Job cannot be stopped, whether with its own identity or with that of a run
    that the attacker owns."""
    job, claimed = attacked.job["metadata"], attacked.ref.model_dump()
    if identity == "own":
        await asyncio.to_thread(tenant.apply, run("own", "actor", parameters={"sleep": "60"}))
        await asyncio.to_thread(tenant.wait_for, "own", phase="Running", seconds=60)
        claimed = {**ref_of(tenant, "own").model_dump(), "namespace": attacked.space.name}
    argument = {
        "run": claimed,
        "job_name": job["name"],
        "job_uid": job["uid"],
        "grace_seconds": 0,
        "snapshot": "",
    }
    with pytest.raises(WorkflowFailureError):
        await forge("StopLaunch", argument, "stop")
    await attacked.succeeds()


@pytest.mark.parametrize(
    ("activity", "fields"),
    [
        ("RecordOutcome", {"phase": "Failed", "reason": "Cancelled", "message": "forged"}),
        (
            "RecordOutcome",
            {
                "phase": "Succeeded",
                "reason": "Succeeded",
                "message": "forged",
                "delivery": "ExactlyOnce",
            },
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
    attacked: Attacked, forge: Any, activity: str, fields: Object
) -> None:
    """Activities reject callers that are not the run's own workflow."""
    with pytest.raises(WorkflowFailureError):
        await forge(activity, {"run": attacked.ref.model_dump(), **fields})
    status = await attacked.succeeds()
    assert "forged" not in str(status)


@pytest.mark.parametrize("sleep", ["15", "0"], ids=["active", "finished"])
async def test_a_cleanup_started_by_hand_deletes_nothing(
    victim: Victim, caller: Client, sleep: str
) -> None:
    """A cleanup workflow that is started by hand deletes nothing."""
    name = new_name()
    await asyncio.to_thread(victim.space.apply, run(name, "actor", parameters={"sleep": sleep}))
    phase = "Running" if sleep == "15" else "Succeeded"
    await asyncio.to_thread(victim.space.wait_for, name, phase=phase, seconds=60)
    ref = ref_of(victim.space, name)
    argument = {"run": ref.model_dump(), "delay_seconds": 0}
    handle = await started(caller, "InferenceRunCleanup", argument)
    await refusal_of(handle)
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
    attacked: Attacked, caller: Client, forged: Object
) -> None:
    """A run workflow that is started with forged state cannot end the run."""
    argument = {**attacked.ref.model_dump(), **forged}
    handle = await started(caller, "InferenceRun", argument)
    await attacked.succeeds()
    await end(handle)


@pytest.fixture
async def theirs(caller: Client) -> AsyncIterator[str]:
    """The task queue of a worker of somebody else, whose workflows have the types of ours."""
    queue = f"theirs-{uuid.uuid4().hex[:8]}"
    async with Worker(caller, task_queue=queue, workflows=[ContinuedRun, ForgedSubmission]):
        yield queue


async def test_a_state_that_another_program_continues_with_does_not_end_the_run(
    attacked: Attacked, caller: Client, theirs: str
) -> None:
    """Continuing as new with forged state cannot end the run."""
    forged = {"seconds_used": 1e6, "pending_since": "2020-01-01T00:00:00Z", "disruptions": 99}
    recovery = recover_workflow_id(run_workflow_id(attacked.ref))
    state = {**attacked.ref.model_dump(), **forged}
    await caller.start_workflow("InferenceRun", args=[state, QUEUE], id=recovery, task_queue=theirs)
    await attacked.succeeds()


async def test_cancelling_a_submission_that_continues_with_somebody_elses_run_does_not_cancel_it(
    attacked: Attacked, caller: Client, theirs: str
) -> None:
    """Cancelling a submission that continues as new with another tenant's run does not cancel that
    run."""
    following = {"name": attacked.ref.name, "uid": attacked.ref.uid}
    request = {
        "namespace": attacked.space.name,
        "configRef": "actor",
        "following": following,
        "parameters": SLEEPING,
    }
    identity = new_name()
    await caller.start_workflow(
        "SubmitInferenceRun", args=[request, QUEUE], id=identity, task_queue=theirs
    )
    # a request like any other
    await asyncio.to_thread(attacked.space.wait_for, identity, phase="Running", seconds=60)
    await caller.get_workflow_handle(identity).cancel()
    await attacked.succeeds()


async def test_the_result_of_another_program_is_not_that_of_a_run(
    victim: Victim, caller: Client, theirs: str
) -> None:
    """Another program's workflow under a submission's id cannot supply the result of a run."""
    key = new_name()
    request = {"namespace": victim.space.name, "configRef": "actor", "parameters": {"exit": "5"}}
    forged = await caller.start_workflow("SubmitInferenceRun", request, id=key, task_queue=theirs)
    await asyncio.wait_for(forged.result(), 60)
    await asyncio.sleep(3)  # until Temporal lists it
    handle = await caller.start_workflow("SubmitInferenceRun", request, id=key, task_queue=QUEUE)
    assert "forged" not in str((await refusal_of(handle, seconds=90)).cause)
    assert victim.space.status(key)["exitCode"] == 5


@pytest.mark.parametrize("suffix", ["?x=1", "/", "%2F", "#x", "/../other"])
async def test_a_run_has_no_second_name(attacked: Attacked, caller: Client, suffix: str) -> None:
    """A run cannot be executed again under a second spelling of its workflow id."""
    alias = RunRef(
        namespace=attacked.ref.namespace, name=attacked.ref.name + suffix, uid=attacked.ref.uid
    )
    handle = await caller.start_workflow(
        "InferenceRun", alias.model_dump(), id=run_workflow_id(alias), task_queue=QUEUE
    )
    await refusal_of(handle)
    await attacked.succeeds()


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
    attacked: Attacked, caller: Client, signal: str, fields: Object
) -> None:
    """A forged signal causes nothing but another look at the Job."""
    job = attacked.job["metadata"]
    handle = attacked.workflow(caller)
    await handle.signal(signal, *([{"job_uid": job["uid"], **fields}] if fields else []))
    await attacked.succeeds()


async def test_cancelling_a_submission_that_follows_somebody_elses_run_does_not_cancel_it(
    attacked: Attacked, caller: Client
) -> None:
    """Cancelling a submission that follows another tenant's run does not cancel that run."""
    following = {"name": attacked.ref.name, "uid": attacked.ref.uid}
    request = {"namespace": attacked.space.name, "configRef": "actor", "following": following}
    handle = await started(caller, "SubmitInferenceRun", request)
    await asyncio.sleep(2)
    if (await handle.describe()).close_time is None:
        await handle.cancel()
    await attacked.succeeds()


@pytest.fixture
async def yearly(victim: Victim) -> AsyncIterator[Object]:
    """The request of a schedule of the victim."""
    name = new_name()
    await asyncio.to_thread(victim.space.apply, run(name, "actor", schedule="0 0 1 1 *"))
    yield {
        "namespace": victim.space.name,
        "parent": {"name": name, "uid": ref_of(victim.space, name).uid},
    }
    victim.space.kubectl("delete", "inferencerun", name)


def expect_no_run_of(victim: Victim, request: Object) -> None:
    names = [item["metadata"]["name"] for item in victim.space.items("inferenceruns")]
    assert [name for name in names if name.startswith(f"{request['parent']['name']}-")] == []


async def test_a_schedule_does_not_start_a_child_on_request(
    victim: Victim, yearly: Object, caller: Client
) -> None:
    """A scheduled run cannot be created by calling its activity."""
    await refusal_of(await started(caller, "SubmitInferenceRun", yearly))
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
        {
            "namespace": "x",
            "configRef": "actor",
            **{f"unknown-{number}": 1 for number in range(2000)},
        },
        {"namespace": "x", "configRef": "actor", "labels": {"inferrun.dev/run-uid": "forged"}},
    ],
    ids=["null", "list", "text", "incomplete", "namespace", "type", "long", "unknown", "label"],
)
async def test_an_invalid_request_fails_with_the_field_and_promptly(
    caller: Client, argument: object
) -> None:
    """An invalid submission fails at once and names the field."""
    assert len(await invalid_request(caller, argument)) < 4096


DEEP = RawValue(
    Payload(metadata={"encoding": b"json/plain"}, data=b'{"a":' * 30_000 + b"1" + b"}" * 30_000)
)
LARGE = RawValue(
    Payload(
        metadata={"encoding": b"json/plain"}, data=json.dumps({"name": "x" * 1_500_000}).encode()
    )
)
BINARY = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=bytes(range(256))))


@pytest.mark.parametrize("kind", ["InferenceRun", "InferenceRunCleanup", "SubmitInferenceRun"])
@pytest.mark.parametrize("payload", [DEEP, LARGE, BINARY], ids=["deep", "large", "binary"])
async def test_a_payload_that_is_no_input_disturbs_nobody(
    victim: Victim, caller: Client, kind: str, payload: RawValue
) -> None:
    """Payloads that cannot be decoded do not affect other workflows."""
    handle = await started(caller, kind, payload)
    name = new_name()
    await asyncio.to_thread(victim.space.apply, run(name, "actor"))
    await asyncio.to_thread(victim.space.wait_for, name, phase="Succeeded", seconds=60)
    await end(handle)


@pytest.mark.parametrize("signal", ["started", "ended", "look_again", "spec_changed"])
@pytest.mark.parametrize("payload", [DEEP, LARGE], ids=["deep", "large"])
async def test_a_signal_with_a_payload_that_is_no_input_disturbs_no_run(
    attacked: Attacked, caller: Client, signal: str, payload: RawValue
) -> None:
    """Signals whose payload cannot be decoded do not affect the run."""
    await attacked.workflow(caller).signal(signal, payload)
    await attacked.succeeds()


async def test_an_update_that_no_workflow_handles_is_refused(
    attacked: Attacked, caller: Client
) -> None:
    """Unknown updates are rejected."""
    handle = attacked.workflow(caller)
    for name in ("finish", "run"):
        with pytest.raises((WorkflowUpdateFailedError, RPCError)):
            await asyncio.wait_for(handle.execute_update(name, {"phase": "Succeeded"}), 90)
    await attacked.succeeds()


@pytest.mark.parametrize("update", ["suspend", "resume", "cancel"])
async def test_a_workflow_under_another_id_neither_reads_nor_edits_a_run(
    attacked: Attacked, caller: Client, update: str
) -> None:
    """A workflow that is given another tenant's run can neither read its progress nor suspend,
    resume or cancel it."""
    handle = await started(caller, "InferenceRun", attacked.ref.model_dump())
    with pytest.raises((WorkflowQueryFailedError, RPCError)):
        await handle.query("progress")
    with pytest.raises((WorkflowUpdateFailedError, RPCError)):
        await asyncio.wait_for(handle.execute_update(update), 60)
    await attacked.succeeds()


@pytest.mark.parametrize("payload", [DEEP, LARGE, BINARY], ids=["deep", "large", "binary"])
async def test_an_update_with_a_payload_that_is_no_argument_edits_no_run(
    attacked: Attacked, caller: Client, payload: RawValue
) -> None:
    """An update that is refused, as its run is not suspended, does not affect the run, whatever its
    payload."""
    handle = attacked.workflow(caller)
    with pytest.raises((WorkflowUpdateFailedError, RPCError)):
        await asyncio.wait_for(handle.execute_update("resume", payload), 60)
    await attacked.succeeds()


async def test_a_schedule_of_somebody_else_does_not_start_a_child(
    victim: Victim, yearly: Object, caller: Client
) -> None:
    """Another tenant's schedule cannot be made to create a run."""
    identity = new_name()
    action = ScheduleActionStartWorkflow(
        "SubmitInferenceRun", yearly, id=identity, task_queue=QUEUE
    )
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

        await refusal_of(caller.get_workflow_handle(action_taken.workflow_id))
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
    assert field in await invalid_request(caller, request)


async def test_terminating_a_workflow_does_not_lose_its_run(
    attacked: Attacked, caller: Client
) -> None:
    """Terminating a run's workflow does not lose the run."""
    await attacked.workflow(caller).terminate()
    await attacked.succeeds()


async def test_another_workflow_under_the_id_of_a_run_does_not_lose_it(
    attacked: Attacked, caller: Client
) -> None:
    """Occupying a run's workflow id does not lose the run."""
    await attacked.workflow(caller).terminate()
    squatter = await caller.start_workflow(
        "Squatter", id=run_workflow_id(attacked.ref), task_queue=f"nobody-{uuid.uuid4().hex}"
    )
    await asyncio.sleep(3)
    await squatter.terminate()
    await asyncio.to_thread(
        attacked.space.wait_for, attacked.ref.name, phase="Succeeded", seconds=180
    )

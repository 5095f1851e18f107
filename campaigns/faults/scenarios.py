"""The lives that a run can have. Each is played by a test in the role of a user, once without
faults and then with each fault."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleSpec,
    WorkflowHandle,
)
from temporalio.service import RPCError, RPCStatusCode

from campaigns.faults.injection import Fault, Plan
from campaigns.faults.node import Container
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import Installation, NotInTime, World, until
from control.schedules.children import KEPT
from inferrun import wellknown
from inferrun.installation import join_id, recorded_cluster
from inferrun.kube.errors import Forbidden, KubeError
from inferrun.kube.objects import JOBS, LEASES, PODS, RUNS, Object, Resource
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT
from inferrun.names import run_workflow_id, schedule_id
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.runner_report import (
    Output,
    OutputFinding,
    OutputState,
    RecordCounts,
    RunnerResult,
    dump_result,
)
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.connection import ATTRIBUTES
from inferrun.temporal.executions import describe
from inferrun.timestamps import rfc3339, utc_now
from tests.integration.kserve.cluster import apply, create_service
from tests.unit.inferrun.kserve.stored import recorded, standard
from workflows import messages
from workflows.messages import RunInput

POLICIES = Resource("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
POLICY_BINDINGS = Resource("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")

TRIGGER_SECONDS = 3.0
"""Until Temporal lists the submission that a trigger has started, or its run exists."""

PROBE = {"restartPolicy": "Never", "containers": [{"name": "probe", "image": "localhost/probe:1"}]}
"""The Pod of a Job that is not to be created."""

PATIENCE_SECONDS = 240.0
"""The longest that any step may take, with whatever fault; without faults, each takes a few
seconds."""


@dataclass
class Stage:
    """What a scenario acts on: the objects of one case."""

    world: World
    installation: Installation
    token: str
    scenario: str
    submissions: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.token}-{self.scenario}"

    @property
    def namespace(self) -> str:
        return self.installation.namespace

    async def config(self, **spec: Any) -> None:
        await create_config(self.world.api, self.namespace, self.name, **spec)

    async def run(self, *, finalizers: tuple[str, ...] = (), **spec: Any) -> None:
        metadata: Object = {"finalizers": list(finalizers)}
        await create_run(
            self.world.api, self.namespace, self.name, config=self.name, metadata=metadata, **spec
        )

    async def start(self, *, config: Object | None = None, **run: Any) -> None:  # Any: see `run`
        """Create the config, with these fields, and the run."""
        await self.config(**(config or {}))
        await self.run(**run)

    # Any: see `run`
    async def start_running(self, *, config: Object | None = None, **run: Any) -> None:
        """The same, and wait until the status says that the run is running."""
        await self.start(config=config, **run)
        await self.until_running()

    async def finish(self) -> None:
        """Let the containers end, and wait until the run has ended."""
        await self.world.node.release(self.name)
        await self.until_ended()

    async def patch(self, body: Object) -> None:
        await self.world.api.patch(RUNS, self.namespace, self.name, body)

    async def delete(self) -> None:
        await self.world.api.delete(RUNS, self.namespace, self.name, uid=self.ref.uid)

    @property
    def ref(self) -> RunRef:
        found = self.world.recorder.run_named(self.namespace, self.name)
        if found is None:
            raise NotInTime(f"{self.name} is gone")
        return RunRef(namespace=self.namespace, name=self.name, uid=found["metadata"]["uid"])

    @property
    def status(self) -> Object:
        found = self.world.recorder.run_named(self.namespace, self.name)
        status: Object = (found or {}).get("status") or {}
        return status

    @property
    def exists(self) -> bool:
        return self.world.recorder.run_named(self.namespace, self.name) is not None

    @property
    def children(self) -> list[Object]:
        """The runs of this schedule, oldest first."""
        runs = self.world.recorder.present(self.world.recorder.runs, self.token)
        return sorted(
            (run for run in runs if run["metadata"]["name"] != self.name),
            key=lambda run: str(run["metadata"]["name"]),
        )

    # Any: started by name
    def workflow(self, *, recovery: bool = False) -> WorkflowHandle[Any, Any]:
        identity = run_workflow_id(self.ref) + ("/recover" if recovery else "")
        return self.world.temporal.get_workflow_handle(identity)

    async def until(self, what: str, is_so: Callable[[], object]) -> None:
        def now() -> str:
            return f"{self.status.get('phase')}/{self.status.get('reason')}"

        await until(what, is_so, seconds=PATIENCE_SECONDS, poll=0.1, now=now)

    async def until_phase(self, *phases: str) -> None:
        await self.until(
            f"{self.name} is {'/'.join(phases)}", lambda: self.status.get("phase") in phases
        )

    async def until_ended(self) -> None:
        await self.until_phase("Succeeded", "Failed")

    async def until_running(self) -> None:
        await self.until_phase("Running")

    async def until_gone(self) -> None:
        await self.until(f"{self.name} is gone", lambda: not self.exists)


Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A life of a run. Faults hit a call in `core` ones, and in the others only if no core one
    makes it."""

    name: str
    play: Play
    behave: Callable[[int], Container]
    is_core: bool = False
    deletes: bool = False
    """Whether the user deletes the run: what its last status said then depends on timing."""
    aims_at_any: bool = False
    """Whether calls that belong to no run are part of it, such as writes of the Lease."""


def _message(reason: Reason, *, completed: int) -> str:
    counts = RecordCounts(total=10, completed=completed, failed=0)
    output = Output(
        location="data:out/predictions.jsonl", manifest="data:out/manifest.json", sha256="0" * 64
    )
    is_success = reason is Reason.SUCCEEDED
    result = RunnerResult(
        reason=reason,
        records=counts,
        delivery="ExactlyOnce",
        output=output if is_success else Output(),
    )
    return dump_result(result)


def failure_message() -> str:
    return _message(Reason.INFERENCE_FAILED, completed=3)


def _finding(*, is_committed: bool) -> str:
    state = OutputState.COMMITTED if is_committed else OutputState.NOT_COMMITTED
    return dump_result(
        OutputFinding(state=state, message="looked", records=RecordCounts(total=10, completed=10))
    )


def success_message() -> str:
    return _message(Reason.SUCCEEDED, completed=10)


def _succeeds(_launch: int) -> Container:
    return Container(message=success_message())


def _fails(_launch: int) -> Container:
    return Container(exit_code=4, message=failure_message())


def _runs_on(_launch: int) -> Container:
    return Container(message=success_message(), ends_after=None)


def _first_shard_succeeds(_launch: int) -> Container:
    return Container(message=success_message(), ends_after=None, others_run_on=True)


def _resumes(launch: int) -> Container:
    return _runs_on(launch) if launch == 1 else _succeeds(launch)


def _leaves_nothing(_launch: int) -> Container:
    return Container(exit_code=137)


def _loses_its_node(launch: int) -> Container:
    return Container(ends_after=None, is_unreachable=True) if launch == 1 else _succeeds(launch)


def _finishes_when_stopped(_launch: int) -> Container:
    return Container(ends_after=None, exit_code_when_stopped=0)


def _waits(_launch: int) -> Container:
    return Container(message=success_message(), unschedulable_for=6.0)


def _run_to_the_end(*, config: Object | None = None, **run: Any) -> Play:  # Any: JSON
    async def play(stage: Stage) -> None:
        await stage.start(config=config, **run)
        await stage.until_ended()

    return play


async def _make_room(stage: Stage) -> None:
    """A policy plays a quota that has room for the Job of the second attempt only once that of the
    first one is gone."""
    api, name = stage.world.api, stage.name
    rule = {
        "apiGroups": ["batch"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["jobs"],
    }
    of_second = (
        f"object.metadata.name.startsWith('inf-{name}-') && object.metadata.name.endsWith('-2')"
    )
    message = "exceeded quota: played, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: count/jobs.batch=1"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "is-the-second", "expression": of_second}],
        "validations": [{"expression": "false", "message": message}],
    }
    policy = await api.create(POLICIES, None, {"metadata": {"name": name}, "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"]}
    binding = await api.create(POLICY_BINDINGS, None, {"metadata": {"name": name}, "spec": bound})
    job = {"metadata": {"name": f"inf-{name}-probe-2"}, "spec": {"template": {"spec": PROBE}}}

    async def is_in_force() -> bool:
        try:
            await api.create(JOBS, stage.namespace, job, dryRun="All")
        except Forbidden:
            return True
        return False

    try:
        await stage.until("the policy is in force", is_in_force)
        await stage.config(backoffLimit=1)
        await stage.run()
        jobs = stage.world.recorder.jobs
        await stage.until("there is a Job", lambda: stage.world.recorder.present(jobs, stage.token))
        await stage.until(
            "the first Job is gone", lambda: not stage.world.recorder.present(jobs, stage.token)
        )
    finally:
        await api.delete(POLICY_BINDINGS, None, name, uid=binding["metadata"]["uid"])
        await api.delete(POLICIES, None, name, uid=policy["metadata"]["uid"])
    await stage.until_ended()


def _cancel(*, config: Object | None = None) -> Play:
    async def play(stage: Stage) -> None:
        await stage.start_running(config=config)
        await stage.patch(
            {"metadata": {"annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}}
        )
        await stage.until_ended()

    return play


def _delete(**run: Any) -> Play:  # Any: JSON
    async def play(stage: Stage) -> None:
        await stage.start_running(**run)
        await stage.delete()
        await stage.until_gone()

    return play


async def _schedule(stage: Stage) -> None:
    """Two runs, of which the history limit keeps one, if it ended a while ago; then an edit, an
    invalid one, and the deletion."""
    await stage.start(schedule="0 0 1 1 *", successfulJobsHistoryLimit=1)
    await stage.until_phase("Scheduled")
    handle = stage.world.temporal.get_schedule_handle(schedule_id(stage.ref))
    await _trigger(stage)
    await stage.until("the first run succeeded", lambda: _phases(stage) == ["Succeeded"])
    first = stage.children[0]["metadata"]["uid"]
    await asyncio.sleep(KEPT.total_seconds() + 1)  # otherwise a clean-up prunes it
    await _trigger(stage)
    await stage.until(
        "the second run succeeded, and the first one is pruned",
        lambda: _phases(stage) == ["Succeeded"] and stage.children[0]["metadata"]["uid"] != first,
    )
    await stage.until("no run is listed as active", lambda: not stage.status.get("active"))
    await stage.patch({"spec": {"schedule": "0 1 1 1 *"}})

    async def is_updated() -> bool:
        return (await handle.describe()).schedule.spec.calendars[0].hour[0].start == 1

    await stage.until("the edit reaches the schedule", is_updated)
    await stage.patch({"spec": {"schedule": "0 0 31 2 *"}})

    async def is_paused() -> bool:
        if await _is_no_schedule(stage, handle.id):
            return True  # Temporal has forgotten it, and it cannot be created anew
        return (await handle.describe()).schedule.state.paused

    await stage.until("the schedule is paused", is_paused)
    await stage.until(
        "the status says so", lambda: stage.status.get("reason") == Reason.INVALID_SCHEDULE
    )
    await stage.delete()
    await stage.until_gone()


async def _keep_none(stage: Stage) -> None:
    """A run of a schedule that keeps none: it is deleted, but not before its submission has read
    how it ended."""
    await stage.start(schedule="0 0 1 1 *", successfulJobsHistoryLimit=0)
    await stage.until_phase("Scheduled")
    await _trigger(stage)
    await stage.until("a run was created", lambda: stage.children)
    stage.submissions.append(
        stage.children[0]["metadata"]["annotations"][wellknown.ANNOTATION_WORKFLOW_ID]
    )
    await stage.until("it is pruned", lambda: not stage.children)
    await _close(stage, stage.world.temporal.get_workflow_handle(stage.submissions[0]))
    await stage.delete()
    await stage.until_gone()


async def _lose_fire(stage: Stage) -> None:
    """The schedule is deleted in Temporal, and again if the shim restores it, until its only time
    of the year has passed: its run is started after it."""
    soon = (datetime.now(UTC) + timedelta(seconds=75)).replace(second=0)
    await stage.start(schedule=f"{soon.minute} {soon.hour} {soon.day} {soon.month} *")
    await stage.until_phase("Scheduled")
    while datetime.now(UTC) < soon + timedelta(seconds=1):
        with suppress(RPCError):
            await stage.world.temporal.get_schedule_handle(schedule_id(stage.ref)).delete()
        await asyncio.sleep(0.3)
    await stage.until("its run succeeded", lambda: _phases(stage) == ["Succeeded"])
    await stage.until(
        "it is accounted for", lambda: (stage.status.get("times") or {}).get("started") == 1
    )
    await stage.delete()
    await stage.until_gone()


async def _back_fill(stage: Stage) -> None:
    """Two runs for past times of a schedule that never fires; then the last time again, whose run
    is repeated."""
    await stage.start(schedule="0 0 1 1 *", suspend=True)
    await stage.until_phase("Suspended")
    for suffix, start, which in (("first", 2024, "Missing"), ("again", 2025, "All")):
        name = f"{stage.name}-{suffix}"
        period = {"start": f"{start}-01-01T00:00:00Z", "end": "2025-01-01T01:00:00Z"}
        spec = {"backfill": {"schedule": stage.name, "which": which, "concurrency": 2, **period}}
        kind = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND}
        await stage.world.api.create(
            RUNS, stage.namespace, {**kind, "metadata": {"name": name}, "spec": spec}
        )

        def has_succeeded(name: str = name) -> bool:
            found = stage.world.recorder.run_named(stage.namespace, name) or {}
            return (found.get("status") or {}).get("phase") == "Succeeded"

        await stage.until(f"the back-fill {suffix} succeeded", has_succeeded)


async def _trigger(stage: Stage) -> None:
    """Fire once the schedule exists and the submission of its last run is closed; before, the fire
    would be skipped. Again if Temporal forgets the submission before it has created a run.
    """
    handle = stage.world.temporal.get_schedule_handle(schedule_id(stage.ref))
    before = {run["metadata"]["uid"] for run in stage.children}

    async def has_fired() -> bool:
        if {run["metadata"]["uid"] for run in stage.children} - before:
            return True
        if not (await handle.describe()).info.running_actions:
            await handle.trigger()
            await asyncio.sleep(TRIGGER_SECONDS)
        return False

    await stage.until("the schedule fires", has_fired)


def _phases(stage: Stage) -> list[str]:
    return [str((child.get("status") or {}).get("phase")) for child in stage.children]


async def _divide(stage: Stage) -> None:
    """Two Pods execute the run; the success of one of them ends the other."""
    await stage.start(shards=2)
    recorder = stage.world.recorder

    def are_running() -> bool:
        pods = recorder.present(recorder.pods, stage.token)
        return [(pod.get("status") or {}).get("phase") for pod in pods] == ["Running", "Running"]

    await stage.until("both Pods run", are_running)
    await stage.until_running()
    await stage.finish()


async def _auto_delete(stage: Stage) -> None:
    await stage.start(config={"autoDeletePolicy": "DeleteOnSuccess", "autoDeleteDelaySeconds": 1})
    await stage.until("the run existed", lambda: stage.world.recorder.traces(stage.token).runs)
    await stage.until_gone()


async def _submit(stage: Stage) -> WorkflowHandle[Any, Any]:
    await stage.config()
    stage.submissions.append(stage.name)
    argument = {"namespace": stage.namespace, "configRef": stage.name}
    return await stage.world.temporal.start_workflow(
        WORKFLOW_TYPE, argument, id=stage.name, task_queue=stage.installation.namespace
    )


async def _close(stage: Stage, handle: WorkflowHandle[Any, Any]) -> None:
    async def is_closed() -> bool:
        try:
            return not (await describe(stage.world.temporal, handle.id)).is_open
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND  # Temporal has forgotten it

    await stage.until("the submission is closed", is_closed)


async def _submit_run(stage: Stage) -> None:
    await _close(stage, await _submit(stage))


async def _submit_and_cancel(stage: Stage) -> None:
    handle = await _submit(stage)
    await stage.until_running()
    await handle.cancel()
    await _close(stage, handle)


async def _submit_and_delete(stage: Stage) -> None:
    handle = await _submit(stage)
    await stage.until_running()
    await stage.delete()
    await _close(stage, handle)


async def _wait_for_config(stage: Stage) -> None:
    """The run is edited while it waits, too."""
    await stage.run()
    await stage.until(
        "the run waits for its config",
        lambda: stage.status.get("reason") == Reason.CONFIG_NOT_FOUND,
    )
    await stage.patch({"spec": {"timeoutSeconds": 3600}})
    await stage.until(
        "the edit is acknowledged", lambda: stage.status.get("observedGeneration") == 2
    )
    await stage.config()
    await stage.until_ended()


async def _wait_for_model(stage: Stage) -> None:
    """The object of KServe exists, but is not ready when the run is created."""
    api, namespace = stage.world.api, stage.namespace
    await apply(api, namespace, _named(recorded("isvc-standard-starting"), stage.name))
    await stage.start(config={"kserve": {"serviceRef": {"name": stage.name}}})
    await stage.until(
        "the run waits for its model", lambda: stage.status.get("reason") == Reason.MODEL_NOT_READY
    )
    await create_service(api, namespace, f"{stage.name}-predictor")
    await apply(api, namespace, _named(standard(), stage.name))
    await stage.until_ended()


def _named(item: Object, name: str) -> Object:
    """The object of KServe with another name, also in its addresses."""
    renamed: Object = json.loads(json.dumps(item).replace(item["metadata"]["name"], name))
    return renamed


async def _edit(stage: Stage) -> None:
    """A limit is added while the run is running, and its Job is given what is left of it."""
    await stage.start_running()
    await stage.patch({"spec": {"timeoutSeconds": 3600}})
    await stage.until(
        "the edit is acknowledged", lambda: stage.status.get("observedGeneration") == 2
    )

    def has_limit() -> bool:
        jobs = stage.world.recorder.present(stage.world.recorder.jobs, stage.token)
        return any(
            ANNOTATION_SECONDS_LEFT in (job["metadata"].get("annotations") or {}) for job in jobs
        )

    await stage.until("the Job has the limit", has_limit)
    await stage.finish()


async def _suspend(stage: Stage) -> None:
    await stage.start_running()
    await stage.patch({"spec": {"suspend": True}})
    await _resume(stage)


async def _create_suspended(stage: Stage) -> None:
    await stage.start(suspend=True)
    await _resume(stage)


async def _resume(stage: Stage) -> None:
    await stage.until_phase("Suspended")
    await stage.patch({"spec": {"suspend": False}})
    await stage.until_ended()


async def _lose_node(stage: Stage) -> None:
    """The node stops responding while the container runs, which the control plane says of its Pod
    after a while."""
    await stage.start_running()
    [pod] = stage.world.recorder.present(stage.world.recorder.pods, stage.token)
    long_ago = rfc3339(utc_now() - timedelta(hours=1))
    conditions = [
        {"type": "Ready", "status": "False", "lastTransitionTime": long_ago},
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": long_ago},
    ]
    body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": conditions}}
    await stage.world.api.patch(PODS, stage.namespace, pod["metadata"]["name"], body, sub="status")
    await stage.until_ended()


async def _terminate(stage: Stage) -> None:
    """Somebody terminates the workflow of a run that is running."""
    await stage.start_running()
    await asyncio.sleep(1)

    async def is_terminated() -> bool:
        await stage.workflow().terminate("by the test")
        return True

    await stage.until("a workflow is terminated", is_terminated)

    async def is_recovered() -> bool:
        try:
            return bool(
                (await describe(stage.world.temporal, stage.workflow(recovery=True).id)).run_id
            )
        except RPCError:
            return False

    await stage.until("the recovery workflow exists", is_recovered)
    await stage.finish()


async def _delete_while_launching(stage: Stage) -> None:
    """The run is deleted between the creation of its Job and the status that names it."""
    site = "activities.launch_job:JobLauncher._publish_job"
    hold = Plan(stage.token, site, "patch inferenceruns/status", Fault.HOLD)
    stage.installation.faults.plan(hold)
    await stage.start()
    await stage.until(
        "the status is about to be written", lambda: stage.installation.faults.has_happened(hold)
    )
    await stage.delete()
    await stage.until_gone()
    stage.installation.faults.withdraw(hold)


async def _accept(stage: Stage) -> None:
    """Temporal is slow, so that the first status comes before the workflow."""
    hold = Plan(
        stage.token, "operator_shim.workflows:RunWorkflows.ensure", "start InferenceRun", Fault.HOLD
    )
    stage.installation.faults.plan(hold)
    await stage.start()
    await stage.until("the run is accepted", lambda: stage.status.get("reason") == Reason.ACCEPTED)
    stage.installation.faults.withdraw(hold)
    await stage.until_ended()


async def _fire_orphan(stage: Stage) -> None:
    """A schedule whose run does not exist fires, and deletes itself."""
    identity = await _leave_schedule(stage, memo=await _memo_of(stage))
    handle = stage.world.temporal.get_schedule_handle(identity)
    await handle.trigger()
    await stage.until("the schedule is gone", lambda: _is_no_schedule(stage, identity))


async def _memo_of(stage: Stage) -> dict[str, str]:
    """The memo of what the installation starts, once it has recorded its id."""

    cluster = ""

    async def is_recorded() -> bool:
        nonlocal cluster
        cluster = await recorded_cluster(stage.world.api, stage.namespace)
        return bool(cluster)

    await stage.until("the id of the installation is recorded", is_recorded)
    return {"installation": join_id(release=stage.namespace, cluster=cluster)}


async def _leave_schedule(stage: Stage, *, memo: dict[str, str]) -> str:
    parent = RunRef(namespace=stage.namespace, name=stage.name, uid=f"uid-of-{stage.token}")
    identity = schedule_id(parent)
    argument = {"namespace": stage.namespace, "parent": {"name": stage.name, "uid": parent.uid}}
    action = ScheduleActionStartWorkflow(
        WORKFLOW_TYPE, argument, id=identity, task_queue=stage.namespace
    )
    schedule = Schedule(action=action, spec=ScheduleSpec(cron_expressions=["0 0 1 1 *"]))
    await stage.world.temporal.create_schedule(identity, schedule, memo={**memo, "run": parent})
    return identity


async def _is_no_schedule(stage: Stage, identity: str) -> bool:
    try:
        await stage.world.temporal.get_schedule_handle(identity).describe()
    except RPCError as error:
        return error.status is RPCStatusCode.NOT_FOUND
    return False


async def _leave_over(stage: Stage) -> None:
    """A workflow and a schedule of runs that do not exist, which a sweep finds soon after the shim
    starts."""
    memo = await _memo_of(stage)
    identity = await _leave_schedule(stage, memo=memo)
    run = RunRef(
        namespace=stage.namespace, name=f"{stage.name}-workflow", uid=f"uid-of-{stage.token}-w"
    )
    stage.submissions.append(run_workflow_id(run))
    handle = await stage.world.temporal.start_workflow(
        messages.RUN_WORKFLOW,
        RunInput.model_validate(run.model_dump()),
        id=run_workflow_id(run),
        task_queue=stage.namespace,
        memo={**memo, "run": run},
        start_delay=timedelta(hours=1),
    )
    stage.installation.shim.kill()

    async def is_swept() -> bool:
        is_cancelled = False
        async for event in handle.fetch_history_events():
            is_cancelled |= event.HasField("workflow_execution_cancel_requested_event_attributes")
        return is_cancelled and await _is_no_schedule(stage, identity)

    await stage.until("both are swept", is_swept)


async def _label_job(stage: Stage) -> None:
    """Somebody labels the live Job as one whose end is recorded."""
    await stage.start_running()
    recorder = stage.world.recorder
    [job] = recorder.present(recorder.jobs, stage.token)
    label = {"metadata": {"labels": {wellknown.LABEL_ENDED: "true"}}}
    patched = await stage.world.api.patch(JOBS, stage.namespace, job["metadata"]["name"], label)

    def is_restored() -> bool:
        [seen] = [item["metadata"] for item in recorder.present(recorder.jobs, stage.token)]
        is_later = int(seen["resourceVersion"]) > int(patched["metadata"]["resourceVersion"])
        return is_later and wellknown.LABEL_ENDED not in seen["labels"]

    await stage.until("the label is gone", is_restored)
    await stage.finish()


async def _delete_lease(stage: Stage) -> None:
    """Somebody deletes the Lease while a run is running."""
    await stage.start_running()
    await _lose_lease(stage)
    await _expect_lease(stage)


async def _lose_lease(stage: Stage) -> None:
    name = f"{stage.namespace}-shim"
    lease = await stage.world.api.get(LEASES, stage.namespace, name)
    await stage.world.api.delete(LEASES, stage.namespace, name, uid=lease["metadata"]["uid"])


async def _expect_lease(stage: Stage) -> None:
    async def is_there() -> bool:
        try:
            return bool(
                await stage.world.api.get(LEASES, stage.namespace, f"{stage.namespace}-shim")
            )
        except KubeError:
            return False

    await stage.until("the Lease is back", is_there)
    await stage.finish()


async def _start_without_lease(stage: Stage) -> None:
    """The Lease is deleted while no shim is running."""
    await stage.start_running()
    await stage.installation.shim.stop()
    await _lose_lease(stage)
    stage.installation.shim.start()
    await _expect_lease(stage)


async def _hand_over(stage: Stage) -> None:
    """The shim is stopped with SIGTERM, and another one takes over."""
    await stage.start_running()
    shim = stage.installation.shim
    ends = len(shim.ends)
    if shim.process is not None:
        with suppress(ProcessLookupError):
            shim.process.terminate()
    await stage.until("the shim ended", lambda: len(shim.ends) > ends)
    await stage.finish()


async def _remove_attributes(stage: Stage) -> None:
    """Temporal forgets the search attributes, as if its database had been replaced."""
    await stage.world.temporal.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(
            namespace=stage.world.temporal.namespace,
            search_attributes=[key.name for key in ATTRIBUTES],
        )
    )
    stage.installation.shim.kill()
    await stage.start()
    await stage.until_ended()


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("succeeds", _run_to_the_end(), _succeeds, is_core=True),
        Scenario("fails", _run_to_the_end(config={"backoffLimit": 1}), _fails, is_core=True),
        Scenario("crowded", _make_room, _fails),
        Scenario("cancelled", _cancel(), _runs_on, is_core=True),
        Scenario("timesout", _run_to_the_end(timeoutSeconds=4), _runs_on, is_core=True),
        Scenario("divided", _divide, _first_shard_succeeds, is_core=True),
        Scenario("served", _wait_for_model, _succeeds, is_core=True),
        Scenario("deleted", _delete(), _runs_on, is_core=True, deletes=True),
        Scenario("scheduled", _schedule, _succeeds, is_core=True, deletes=True),
        Scenario("keepsnone", _keep_none, _succeeds, deletes=True),
        Scenario("unfired", _lose_fire, _succeeds, deletes=True),
        Scenario("backfilled", _back_fill, _succeeds),
        Scenario("autodeleted", _auto_delete, _succeeds, is_core=True),
        Scenario("submitted", _submit_run, _succeeds),
        Scenario("subcancelled", _submit_and_cancel, _runs_on),
        Scenario("subdeleted", _submit_and_delete, _runs_on, deletes=True),
        Scenario("waits", _wait_for_config, _succeeds),
        Scenario("edited", _edit, _runs_on),
        Scenario("suspended", _suspend, _resumes),
        Scenario("resumed", _create_suspended, _succeeds),
        Scenario("nodelost", _lose_node, _loses_its_node),
        # The container of a custom image finishes its work in its grace period: only its exit code
        # says so.
        Scenario(
            "finishes", _cancel(config={"image": "localhost/custom:1"}), _finishes_when_stopped
        ),
        Scenario("unreadable", _run_to_the_end(), _leaves_nothing),
        Scenario(
            "legacy", _delete(finalizers=(wellknown.LEGACY_FINALIZER,)), _runs_on, deletes=True
        ),
        Scenario("unschedulable", _run_to_the_end(), _waits),
        Scenario("terminated", _terminate, _runs_on),
        Scenario("withdrawn", _delete_while_launching, _runs_on, deletes=True),
        Scenario("accepted", _accept, _succeeds),
        Scenario("orphan", _fire_orphan, _succeeds),
        Scenario("leftover", _leave_over, _succeeds),
        Scenario("labelled", _label_job, _runs_on),
        Scenario("lease", _delete_lease, _runs_on, aims_at_any=True),
        Scenario("newlease", _start_without_lease, _runs_on, aims_at_any=True),
        Scenario("handover", _hand_over, _runs_on, aims_at_any=True),
        Scenario("attributes", _remove_attributes, _succeeds, aims_at_any=True),
    )
}


def behaviour_of(run: str, launch: int, is_verifying: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """How the container of a run behaves, by the scenario in the run's name. Verified output is
    that of an unread success."""
    if is_verifying:
        return Container(message=_finding(is_committed="unreadable" in run))
    match = re.match(r"c\d{5}q-([a-z]+)", run)
    scenario = SCENARIOS.get(match.group(1)) if match else None
    return scenario.behave(launch) if scenario else _succeeds(launch)

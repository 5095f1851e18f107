"""Runs whose workflow somebody has paused in Temporal."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import (
    ListWorkflowExecutionsRequest,
    ListWorkflowExecutionsResponse,
)

from control.search_attributes import SearchAttributes
from inferrun import wellknown
from inferrun.kube.namespaces import ALL
from inferrun.kube.objects import Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef
from inferrun.temporal.executions import OPEN
from inferrun.temporal.executions import PAUSED as PAUSED_ONLY
from inferrun.timestamps import rfc3339
from operator_shim.run_plan import News
from operator_shim.stuck_workflows import StuckWorkflows
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules, TimeSubmissionState
from operator_shim.workflows import OpenWorkflow, RunWorkflows
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import NOW, RUN, at
from tests.unit.operator_shim.shown_runs import NotedLoop
from tests.unit.operator_shim.test_sweep import NoSchedules, Watched
from tests.unit.temporal_answers import (
    PAUSED,
    UNHEARD_OF,
    answering,
    described,
    execution,
    not_found,
)

OWN, RECOVERY = run_workflow_id(RUN), recover_workflow_id(run_workflow_id(RUN))
KEY = (RUN.namespace, RUN.name)
PAUSE = "paused in Temporal since 2026-11-21T09:00:00Z by anna (an incident)"
UNPAUSE = f"temporal workflow unpause --workflow-id {OWN}"
TEXT = f"its workflow is {PAUSE}: nothing follows until it is resumed with {UNPAUSE}"


class OneWorkflow(RunWorkflows):
    """The run's workflow, which is paused until a test says otherwise; what is requested is
    noted."""

    def __init__(self, pause: str = PAUSE) -> None:
        self.pause = pause
        self.terminated: list[str] = []

    async def find_open(self, run: RunRef) -> OpenWorkflow | None:
        return OpenWorkflow(
            run_workflow_id(run), "execution", task_attempt=0, events=9, pause=self.pause
        )

    async def terminate(self, workflow: OpenWorkflow, *, reason: str) -> None:
        self.terminated.append(workflow.id)

    async def count_open(self) -> int:
        return 0 if self.pause else 1

    async def list_paused(self) -> list[RunRef]:
        return [RUN] if self.pause else []

    async def list_open(self) -> list[RunRef]:
        return [RUN]


def running_run(**changes: Any) -> Object:  # Any: fields of the status
    """A run in progress, as the API server has it."""
    status = {
        "reason": "Running",
        "message": "attempt 1 is running in Pod p",
        "runningSince": rfc3339(NOW - timedelta(seconds=50)),
    }
    run = live_run(phase="Running", **{**status, **changes})
    run["metadata"]["creationTimestamp"] = rfc3339(NOW - timedelta(hours=1))
    return run


class StoredRun(StoredObjects):
    """Accepts every status of the run."""

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        await super().patch(resource, namespace, name, body, sub=sub)
        return self._objects["inferenceruns"]


class Stage:
    """A run, its workflow, and what became of them."""

    def __init__(self, run: Object | None = None) -> None:
        self.run = run or running_run()
        self.api: StoredObjects = StoredRun(inferenceruns=self.run)
        self.workflows = OneWorkflow()
        self.loop = NotedLoop()
        self.pauses: dict[str, str] = {}
        self.stuck = StuckWorkflows(
            RunStore(self.api),
            self.loop,
            self.workflows,
            clock=lambda: 0.0,
            note_pause=lambda run, text: self.pauses.__setitem__(run.uid, text),
        )

    @property
    def again(self) -> list[str]:
        """The runs of which a workflow is to be made sure of again."""
        return [uid for uid, news in self.loop.heard if news is News.LOST]

    def sweep(self) -> Sweep:
        return Sweep(
            RunStore(self.api),
            self.loop,
            self.workflows,
            NoSchedules(),
            watch=Watched(self.run),
            namespaces=ALL,
            note_pause=lambda run, text: self.pauses.__setitem__(run.uid, text),
        )

    @property
    def written(self) -> list[tuple[str, str]]:
        statuses = [body["status"] for body in self.api.patched]
        return [(status["reason"], status["message"]) for status in statuses]


@pytest.mark.parametrize("status", [PAUSED, UNHEARD_OF])
async def test_a_workflow_with_a_status_that_the_sdk_does_not_know_is_open(status: int) -> None:
    client, _ = answering(
        describe_workflow_execution=lambda _: described(execution(OWN, status=status))
    )
    workflows = RunWorkflows(
        client,
        installation="i.c",
        task_queue="tests",
        attributes=SearchAttributes(client, installation="i.c"),
    )
    found = await workflows.find_open(RUN)
    assert found is not None
    assert found.pause == (PAUSE if status == PAUSED else "")


async def test_paused_workflows_are_listed_as_open() -> None:
    def listed(request: ListWorkflowExecutionsRequest) -> ListWorkflowExecutionsResponse:
        info = execution(OWN, status=PAUSED)
        info.memo.fields["installation"].CopyFrom(payloads["installation"])
        info.memo.fields["run"].CopyFrom(payloads["run"])
        queries.append(request.query)
        return ListWorkflowExecutionsResponse(executions=[info])

    queries: list[str] = []
    client, _ = answering(list_workflow_executions=listed)
    encoded = await client.data_converter.encode(["i.c", RUN])
    payloads = dict(zip(("installation", "run"), encoded, strict=True))
    workflows = RunWorkflows(
        client,
        installation="i.c",
        task_queue="tests",
        attributes=SearchAttributes(client, installation="i.c"),
    )
    assert await workflows.list_open() == await workflows.list_paused() == [RUN]
    assert [query.rpartition(" AND ")[2] for query in queries] == [OPEN, PAUSED_ONLY]


async def test_the_status_names_the_pause_and_the_command_that_resumes_the_workflow() -> None:
    stage = Stage()
    await stage.stuck.check(stage.run)
    assert stage.written == [("WorkflowPaused", f"attempt 1 is running in Pod p; {TEXT}")]
    assert stage.pauses == {RUN.uid: TEXT}
    assert not stage.workflows.terminated


async def test_the_status_of_a_paused_run_is_written_once() -> None:
    stage = Stage(running_run(reason="WorkflowPaused", message=f"its Pod has completed; {TEXT}"))
    await stage.stuck.check(stage.run)
    assert stage.written == []


async def test_a_run_is_told_to_go_on_once_its_workflow_is_resumed() -> None:
    stage = Stage(running_run(reason="WorkflowPaused", message=f"waits; {TEXT}"))
    stage.workflows.pause = ""
    await stage.stuck.check(stage.run)
    assert stage.pauses == {RUN.uid: ""}
    assert stage.loop.heard == [(RUN.uid, News.AWAITED_CHANGED)]


@pytest.mark.parametrize(
    ("limit", "used", "is_over"),
    [(60, None, False), (60, 20, True), (50, None, True), (0, 99, False)],
)
async def test_a_paused_workflow_is_replaced_when_the_time_of_its_run_is_over(
    *, limit: int, used: int | None, is_over: bool
) -> None:
    stage = Stage(running_run(**({"secondsUsed": used} if used else {})))
    stage.run["spec"]["timeoutSeconds"] = limit
    await stage.stuck.check(stage.run)
    assert stage.workflows.terminated == ([OWN] if is_over else [])
    assert stage.again == ([RUN.uid] if is_over else [])


@pytest.mark.parametrize(("limit", "is_over"), [(90, True), (91, False)])
async def test_the_time_of_pods_that_the_launch_has_lost_counts_once(
    *, limit: int, is_over: bool
) -> None:
    lost = {
        "launch": 1,
        "attempt": 1,
        "replaced": True,
        "startTime": at(200),
        "completionTime": at(160),
    }
    stage = Stage(running_run(secondsUsed=0, attempts=[lost]))
    stage.run["spec"]["timeoutSeconds"] = limit
    await stage.stuck.check(stage.run)
    assert stage.workflows.terminated == ([OWN] if is_over else [])


async def test_a_paused_workflow_is_replaced_when_its_run_is_to_be_cancelled() -> None:
    stage = Stage()
    stage.run["metadata"]["annotations"] = {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}
    await stage.stuck.check(stage.run)
    assert (stage.workflows.terminated, stage.again) == ([OWN], [RUN.uid])


@pytest.mark.parametrize("is_paused", [True, False])
async def test_paused_workflows_are_found_within_seconds_and_do_not_count_as_missing(
    *, is_paused: bool
) -> None:
    stage = Stage()
    stage.workflows.pause = PAUSE if is_paused else ""

    sweep = stage.sweep()
    sweep._watch = One(stage.run)
    await sweep.restart_missing(created_before=NOW)
    assert stage.again == []
    assert stage.pauses == ({RUN.uid: TEXT} if is_paused else {})


class One(Watched):
    """The run has not ended."""

    def find(self, _term: object) -> list[tuple[tuple[str, str], Object]]:
        return [(KEY, self._run)]


async def test_the_paused_workflow_of_a_run_that_is_gone_is_ended() -> None:
    stage = Stage()
    stage.api = StoredObjects()
    sweep = stage.sweep()
    sweep._watch = Gone()
    for _ in range(3):
        await sweep.sweep()
    assert stage.loop.heard == [(RUN.uid, News.WORKFLOW_LEFT)]
    assert stage.workflows.terminated == [OWN]


class Gone(Watched):
    """There are no runs."""

    def __init__(self) -> None:
        pass

    def get(self, _namespace: str, _name: str) -> Object | None:
        return None


async def test_the_submission_of_a_time_that_is_paused_is_neither_absent_nor_started() -> None:
    client, _ = answering(
        describe_workflow_execution=lambda request: described(
            execution(request.execution.workflow_id, status=PAUSED, kind="SubmitInferenceRun")
        )
    )
    schedules = TemporalSchedules(
        client,
        installation="i.c",
        task_queue="tests",
        attributes=SearchAttributes(client, installation="i.c"),
    )
    found = await schedules.submission("schedule", NOW)
    assert found.state is TimeSubmissionState.PAUSED
    assert "temporal workflow unpause" in found.message


async def test_no_workflow_is_not_a_paused_one() -> None:
    def absent(_request: object) -> None:
        raise not_found()

    client, _ = answering(describe_workflow_execution=absent)  # type: ignore[arg-type]  # never returns
    workflows = RunWorkflows(
        client,
        installation="i.c",
        task_queue="tests",
        attributes=SearchAttributes(client, installation="i.c"),
    )
    assert await workflows.find_open(RUN) is None

"""The billed actions of Temporal Cloud that a run takes, counted in the histories of real runs as
Temporal documents them."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus

from campaigns.faults.node import Container
from campaigns.faults.scenarios import failure_message, success_message
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import World, until, world
from inferrun.kube.objects import RUNS
from inferrun.names import schedule_id
from inferrun.run_ref import RunRef
from tests.unit.docs.pages import DOCS

pytestmark = pytest.mark.thorough

NAMESPACE = "actions"
SECONDS = 120
ONE_EACH = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
}
OURS = "WorkflowType IN ('InferenceRun', 'InferenceRunCleanup', 'SubmitInferenceRun')"
WORKFLOWS = 8
"""One for each run, the clean-up of one and the submission of another."""

SCHEDULE_FIRES = 2
"""Actions of a schedule that fires, besides that of the workflow."""

PUBLISHED = {
    name: int(count)
    for name, count in re.findall(
        r"^\| `(\w+)` \|.*\| (\d+) \|$", (DOCS / "how-to" / "temporal-cloud.md").read_text(), re.M
    )
}


def actions_of(events: Iterable[HistoryEvent]) -> int:
    """The markers of a workflow task, which are the local activities that it has executed, count as
    one."""
    kinds = Counter[int]()
    tasks = set()
    for event in events:
        kinds[event.event_type] += 1
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
            tasks.add(event.marker_recorded_event_attributes.workflow_task_completed_event_id)
    return sum(kinds[kind] for kind in ONE_EACH) + len(tasks)


def behave(run: str, launch: int, _is_verifying: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    if run == "retried" and launch == 1:
        return Container(exit_code=4, message=failure_message(), ends_after=3)
    return Container(message=success_message(), ends_after=3)


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, behave=behave) as made, made.installation(NAMESPACE):
        await create_config(made.api, NAMESPACE, "iris")
        yield made


async def total(ground: World, name: str) -> int:
    """The actions of all workflows of a run, once they have closed."""
    found = [
        one
        async for one in ground.temporal.list_workflows(OURS)
        if re.search(rf"/{name}[-/]", one.id)
    ]
    count = 0
    for one in found:
        history = await ground.temporal.get_workflow_handle(
            one.id, run_id=one.run_id
        ).fetch_history()
        count += actions_of(history.events)
    return count


async def test_runs_take_the_published_number_of_actions(ground: World) -> None:
    api = ground.api
    await create_config(
        api, NAMESPACE, "deleting", autoDeletePolicy="DeleteOnSuccess", autoDeleteDelaySeconds=5
    )
    for name in ("succeeds", "retried"):
        await create_run(api, NAMESPACE, name, config="iris")
    await create_run(api, NAMESPACE, "limited", config="iris", timeoutSeconds=600)
    await create_run(api, NAMESPACE, "deleted", config="deleting")
    await create_run(api, NAMESPACE, "waits", config="late")
    await create_run(api, NAMESPACE, "scheduled", config="iris", schedule="0 0 1 1 *")

    async def until_phase(name: str, phase: str) -> None:
        def is_so() -> bool:
            found = ground.recorder.run_named(NAMESPACE, name) or {}
            return (found.get("status") or {}).get("phase") == phase

        await until(f"{name} is {phase}", is_so, seconds=SECONDS)

    await until_phase("waits", "Pending")
    await create_config(api, NAMESPACE, "late")
    await until_phase("scheduled", "Scheduled")
    parent = RunRef.of(await api.get(RUNS, NAMESPACE, "scheduled"))
    await ground.temporal.get_schedule_handle(schedule_id(parent)).trigger()
    for name in ("succeeds", "retried", "limited", "waits"):
        await until_phase(name, "Succeeded")

    async def have_closed() -> bool:
        found = [one.status async for one in ground.temporal.list_workflows(OURS)]
        return found == [WorkflowExecutionStatus.COMPLETED] * WORKFLOWS

    await until("all workflows have closed", have_closed, seconds=SECONDS)
    measured = {name: await total(ground, name) for name in PUBLISHED}
    measured["scheduled"] += SCHEDULE_FIRES
    assert measured == PUBLISHED

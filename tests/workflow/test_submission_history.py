"""Earlier submissions are found on a server that allows ten visibility requests per second."""

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.submission_history import FILTERABLE_ID, SubmissionHistory
from inferrun.names import run_workflow_id, submitted_run_name
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.submission import parse_submission
from inferrun.timestamps import utc_now
from tests.unit.launches import INSTALLATION
from tests.workflow.submissions import REQUEST, WAIT_SECONDS, FrontDoor, result_for, served
from workflows import messages
from workflows.messages import SubmissionState, SubmissionStatus, SubmitInput

CROWD = 260


def again(workflow_id: str) -> SubmitInput:
    """The same submission, in a new execution."""
    return SubmitInput(submission=parse_submission(REQUEST), workflow_id=workflow_id)


def history_of(client: Client, queue: str) -> SubmissionHistory:
    return SubmissionHistory(client, task_queue=queue, installation=INSTALLATION.id)


async def end_one(client: Client, queue: str, *, workflow_id: str | None = None) -> RunRef:
    """The run of a submission, which has ended."""
    runs = FrontDoor(client=client, queue=queue)
    handle = await runs.start(key=workflow_id)
    run = RunRef(namespace="team", name=submitted_run_name(handle.id), uid=f"uid-{uuid.uuid4()}")
    identity, memo = run_workflow_id(run), {"installation": INSTALLATION.id, "run": run}
    executing = await client.start_workflow(
        messages.RUN_WORKFLOW, run, id=identity, task_queue=queue, memo=memo
    )
    await executing.terminate()
    async with served(client, queue, runs):
        made = await runs.report(handle)
        await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    return made


async def test_a_crowd_of_submissions_is_compared_with_earlier_ones_within_seconds(
    temporal: Client, task_queue: str
) -> None:
    ended = [(await end_one(temporal, task_queue)).name for _ in range(2)]
    history = history_of(temporal, task_queue)
    deadline = time.monotonic() + WAIT_SECONDS
    while await history.find(again(ended[1])) is None:
        assert time.monotonic() < deadline, "the closed execution is not listed"
    ids = [*ended, *(f"new-{uuid.uuid4().hex}" for _ in range(CROWD))]
    began = time.monotonic()
    found = await asyncio.gather(*(history.find(again(one)) for one in ids))
    assert time.monotonic() - began < 10
    of_ended: list[SubmissionStatus | None] = found[:2]
    assert [one.standing for one in of_ended if one is not None] == [SubmissionState.ENDED] * 2
    assert not any(found[2:])


async def test_an_execution_on_another_task_queue_is_no_earlier_submission(
    temporal: Client, task_queue: str
) -> None:
    ended = (await end_one(temporal, task_queue)).name
    own, other = (history_of(temporal, queue) for queue in (task_queue, "another"))
    deadline = time.monotonic() + WAIT_SECONDS
    while await own.find(again(ended)) is None:
        assert time.monotonic() < deadline, "the closed execution is not listed"
    assert await other.find(again(ended)) is None


@workflow.defn(name=messages.RUN_WORKFLOW, sandboxed=False)
class EndedRun:
    """The workflow of a run, which ends at once."""

    @workflow.run
    async def run(self, given: RunRef) -> RunResult:
        return result_for(given, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)


async def execute(client: Client, queue: str, run: RunRef, *, ends: bool) -> None:
    """Start the run's workflow; one that does not end has no worker."""
    started = await client.start_workflow(
        messages.RUN_WORKFLOW,
        run,
        id=run_workflow_id(run),
        task_queue=queue,
        memo={"installation": INSTALLATION.id, "run": run},
    )
    if ends:
        runner = UnsandboxedWorkflowRunner()
        async with Worker(client, task_queue=queue, workflows=[EndedRun], workflow_runner=runner):
            await asyncio.wait_for(started.result(), WAIT_SECONDS)


@pytest.mark.parametrize("ends", [True, False])
async def test_a_run_that_an_earlier_try_created_is_found_after_its_deletion(
    temporal: Client, task_queue: str, *, ends: bool
) -> None:
    since = utc_now()
    run = RunRef(namespace="team", name=f"monday-{uuid.uuid4().hex}", uid="uid-of-the-run")
    longer = run.model_copy(update={"name": f"{run.name}-2", "uid": "uid-of-another-run"})
    for one in (longer, run):
        await execute(temporal, task_queue, one, ends=ends)
    history, deadline = history_of(temporal, task_queue), time.monotonic() + WAIT_SECONDS
    while (found := await history.find_deleted("team", run.name, since=since)) is None:
        assert time.monotonic() < deadline, "the workflow is not listed"
    assert found.run == run
    assert found.standing is (SubmissionState.ENDED if ends else SubmissionState.GONE)
    assert (found.result is not None) is ends
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert await history.find_deleted("team", run.name, since=later) is None
    assert await history.find_deleted("other", run.name, since=since) is None


@pytest.mark.parametrize(
    "workflow_id", ["corp\\anna", "end'", '"', "a\tb\nc", "x" * 300 + "\\", "why?"]
)
async def test_the_run_of_a_submission_is_found_whatever_its_id(
    temporal: Client, task_queue: str, workflow_id: str
) -> None:
    """No literal of a list filter finds a workflow with such an id."""
    workflow_id = f"{workflow_id}{task_queue}{workflow_id}"
    asked, history = again(workflow_id), history_of(temporal, task_queue)
    assert await history.find(asked) is None
    ended = await end_one(temporal, task_queue, workflow_id=workflow_id)
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := await history.find(asked)) is None:
        assert time.monotonic() < deadline, "the workflow is not listed"
    assert (found.standing, found.run) == (SubmissionState.ENDED, ended)
    other = parse_submission({**REQUEST, "timeoutSeconds": 5})
    mismatch = await history.find(SubmitInput(submission=other, workflow_id=workflow_id))
    assert mismatch is not None
    assert mismatch.reason is Reason.REQUEST_MISMATCH


@pytest.mark.thorough
async def test_the_ids_in_a_list_filter_are_those_that_it_finds(
    temporal: Client, task_queue: str
) -> None:
    characters = [
        one
        for one in (*map(chr, range(1, 128)), "é", "😀", "\u2028")
        if FILTERABLE_ID.fullmatch(one)
    ]
    ids = [
        f"{start}{task_queue}{end}"
        for one in characters
        for start, end in ((one, ""), ("", one), ("", f"{one}b"))
    ]
    for one in ids:
        await (await temporal.start_workflow("Theirs", id=one, task_queue=task_queue)).terminate()
    literals, deadline = ", ".join(f"'{one}'" for one in ids), time.monotonic() + WAIT_SECONDS
    while missing := set(ids) - {
        one.id async for one in temporal.list_workflows(f"WorkflowId IN ({literals})")
    }:
        assert time.monotonic() < deadline, missing
        await asyncio.sleep(0.2)
    assert len(characters) > 90

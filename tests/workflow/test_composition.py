"""A workflow of somebody else that runs ours as its children, on a real Temporal server; runs are
kept in memory."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, ChildWorkflowError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from inferrun.reasons import Phase, Reason
from inferrun.run_result import RunResult
from inferrun.runner_report import Output, RecordCounts, TokenUsage
from inferrun.submission import WORKFLOW_TYPE
from tests.published_schemas import violations
from tests.workflow.submissions import REQUEST, WAIT_SECONDS, Runs, result_for, served, until
from workflows import messages

Parent = WorkflowHandle[Any, Any]  # Any: workflows are started by name


@workflow.defn(name="Theirs", sandboxed=False)
class TwoRuns:
    """Two runs in sequence; it knows nothing of ours but a name and JSON."""

    @workflow.run
    async def run(self, queue: str) -> list[Any]:  # Any: JSON
        """Return both results, or what the error of a run says."""
        results = []
        for number in (1, 2):
            key = f"{workflow.info().workflow_id}-{number}"
            try:
                result = await workflow.execute_child_workflow(
                    WORKFLOW_TYPE, REQUEST, id=key, task_queue=queue
                )
            except ChildWorkflowError as error:
                cause = error.cause
                if not isinstance(cause, ApplicationError):  # such as a cancellation
                    raise
                return [cause.type, cause.message, *cause.details]
            results.append(result)
        return results


@asynccontextmanager
async def parent(client: Client, queue: str) -> AsyncIterator[Parent]:
    """Their workflow, on a task queue and a worker of their own."""
    own = f"theirs-{uuid.uuid4().hex[:8]}"
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=own, workflows=[TwoRuns], workflow_runner=runner):
        yield await client.start_workflow("Theirs", queue, id=own, task_queue=own)


async def end(
    client: Client, runs: Runs, key: str, *, phase: Phase, reason: Reason, **more: Any
) -> RunResult:
    """Let the run of that submission end."""
    await until(lambda: key in runs.made)
    ref = runs.made[key]
    runs.results[ref.uid] = result = result_for(
        ref, phase=phase, reason=reason, message="9 of 9"
    ).model_copy(update=more)
    await client.get_workflow_handle(key).signal(messages.LOOK_AGAIN_SIGNAL)
    return result


COUNTED = {
    "records": RecordCounts(total=9, completed=8, failed=1),
    "usage": TokenUsage(prompt_tokens=20, completion_tokens=10, total_tokens=30),
    "output": Output(
        location="s3://records/out/a", manifest="s3://records/out/a/manifest.json", sha256="0" * 64
    ),
}


async def test_two_children_in_sequence_return_counts_usage_and_manifest(
    temporal: Client, task_queue: str
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs), parent(temporal, task_queue) as handle:
        first = f"{handle.id}-1"
        await until(lambda: first in runs.made)
        assert list(runs.made) == [first], "the second run starts after the first one"
        for number in (1, 2):
            key = f"{handle.id}-{number}"
            await end(
                temporal, runs, key, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, **COUNTED
            )
        results = await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert [result["name"] for result in results] == [first, f"{handle.id}-2"]
    for result in results:
        assert violations("run-result", result) == []
        assert result["records"] == {"total": 9, "completed": 8, "failed": 1}
        assert result["usage"] == {"promptTokens": 20, "completionTokens": 10, "totalTokens": 30}
        assert result["output"]["manifest"] == "s3://records/out/a/manifest.json"


async def test_a_child_that_fails_is_a_typed_error_with_the_result(
    temporal: Client, task_queue: str
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs), parent(temporal, task_queue) as handle:
        key = f"{handle.id}-1"
        await end(
            temporal,
            runs,
            key,
            phase=Phase.FAILED,
            reason=Reason.ERROR_THRESHOLD_EXCEEDED,
            **COUNTED,
        )
        kind, message, details = await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert list(runs.made) == [key]
    assert kind == Reason.ERROR_THRESHOLD_EXCEEDED
    assert violations("run-failure", {"type": kind, "message": message, "details": [details]}) == []
    assert details["records"]["failed"] == 1


async def test_cancelling_the_parent_cancels_its_run(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs), parent(temporal, task_queue) as handle:
        key = f"{handle.id}-1"
        await until(lambda: key in runs.made)
        await handle.cancel()
        await until(lambda: key in runs.cancelled)
        await end(temporal, runs, key, phase=Phase.FAILED, reason=Reason.CANCELLED)
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), WAIT_SECONDS)

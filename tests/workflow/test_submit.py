"""SubmitInferenceRun on a real Temporal server; behind the seam of the activity table, runs are kept in memory."""

import asyncio
import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError, CancelledError

from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.submission import WORKFLOW_TYPE
from tests.published_schemas import violations
from tests.workflow.conftest import CONTINUE_AS_NEW_AFTER
from tests.workflow.submissions import REQUEST, WAIT_SECONDS, Runs, result_for, served, start, until
from workflows import messages
from workflows.messages import SubmissionState, SubmissionStatus

SEALED = RawValue(Payload(metadata={"encoding": b"binary/sealed"}, data=b"?"))


async def failure_of(handle: WorkflowHandle[Any, Any]) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause


async def report(handle: WorkflowHandle[Any, Any], runs: Runs, end: RunResult) -> None:
    """The run has ended, which its workflow signals."""
    runs.results[end.uid] = end
    await handle.signal(messages.LOOK_AGAIN_SIGNAL)


async def test_the_signal_of_the_runs_end_is_the_submissions_result(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: handle.id in runs.made)
        end = result_for(runs.made[handle.id], phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, message="150 of 150")
        await report(handle, runs, end)
        got = await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert (got["phase"], got["name"], got["message"]) == ("Succeeded", handle.id, "150 of 150")
    assert violations("run-result", got) == []


async def test_a_run_that_failed_fails_its_submission_with_its_reason(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: handle.id in runs.made)
        run = runs.made[handle.id]
        end = result_for(run, phase=Phase.FAILED, reason=Reason.INPUT_FAILED, message="the handler answered 500")
        await report(handle, runs, end)
        error = await failure_of(handle)
    assert (error.type, error.non_retryable) == ("InputFailed", True)
    assert "the handler answered 500" in str(error)
    assert error.details[0]["uid"] == run.uid
    failure = {"type": error.type, "message": error.message, "details": list(error.details)}
    assert violations("run-failure", failure) == []


async def test_a_run_that_has_ended_already_is_answered_at_once(temporal: Client, task_queue: str) -> None:
    key = f"done-{uuid.uuid4().hex[:8]}"
    run = RunRef(namespace="team", name=key, uid="u-1")
    runs = Runs(made={key: run}, results={"u-1": result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)})
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue, key=key)
        got = await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert got["uid"] == "u-1"


async def test_nobody_can_follow_the_run_of_another_submission(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        victim = await start(temporal, task_queue)
        await until(lambda: victim.id in runs.made)
        run = runs.made[victim.id]
        following = {**REQUEST, "following": {"name": run.name, "uid": run.uid}}
        error = await failure_of(await start(temporal, task_queue, following))
        assert error.type == "RequestRefused"
        assert "following: unknown field" in str(error)
        assert (runs.looks, runs.cancelled) == ([], [])
        await report(victim, runs, result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED))
        await asyncio.wait_for(victim.result(), WAIT_SECONDS)


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ({"configRef": "iris"}, "namespace: missing"),
        ({"namespace": "team"}, "configRef: missing"),
        ({"namespace": "team", "configRef": "iris", "timeoutSeconds": "soon"}, "timeoutSeconds: "),
        ({"namespace": "team", "configRef": "iris", "dryRun": "yes"}, "dryRun: Input should be a valid boolean"),
        ({"namespace": "team", "configRef": "iris", "timeout_second": 5}, "timeout_second: unknown field"),
        (
            {"namespace": "team", "configRef": "iris", "parameters": {"job_uid": "x"}},
            "parameters: 'job_uid' is reserved",
        ),
        ("iris", "must be a JSON object"),
        (None, "must be a JSON object"),
        (b"\x00", "must be a JSON object"),
    ],
)
async def test_an_argument_that_is_wrong_fails_the_workflow_and_names_the_field(
    temporal: Client, task_queue: str, argument: object, named: str
) -> None:
    async with served(temporal, task_queue, Runs()):
        error = await failure_of(await start(temporal, task_queue, argument))
    assert error.type == "RequestRefused"
    assert named in str(error)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "must be a JSON object"),
        ([REQUEST, REQUEST], "takes one argument (2 given)"),
        ([REQUEST, SEALED], "not JSON: KeyError: 'Unknown payload encoding binary/sealed'"),
    ],
)
async def test_more_or_less_than_one_argument_fails_the_workflow(
    temporal: Client, task_queue: str, arguments: list[object], text: str
) -> None:
    async with served(temporal, task_queue, Runs()):
        key = f"args-{uuid.uuid4().hex[:8]}"
        handle = await temporal.start_workflow(WORKFLOW_TYPE, args=arguments, id=key, task_queue=task_queue)
        error = await failure_of(handle)
    assert error.type == "RequestRefused"
    assert text in str(error)


@pytest.mark.parametrize("argument", [None, "now"])
async def test_what_an_update_is_given_is_left_out(temporal: Client, task_queue: str, argument: object) -> None:
    """As Java's `stub.update("suspend", Map.class, (Object) null)` sends it."""
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue, REQUEST)
        await handle.execute_update("suspend", argument)
        await handle.terminate()
    assert runs.suspended == {handle.id: True}


async def test_an_update_in_an_unknown_encoding_is_refused(temporal: Client, task_queue: str) -> None:
    async with served(temporal, task_queue, Runs()):
        handle = await start(temporal, task_queue, REQUEST)
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("suspend", SEALED)
        await handle.terminate()
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "RequestRefused"
    assert "not JSON" in refused.value.cause.message


async def test_what_a_signal_is_given_is_left_out(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue, REQUEST)
        await handle.signal(messages.LOOK_AGAIN_SIGNAL, "x")
        await until(lambda: handle.id in runs.made)
        run = runs.made[handle.id]
        runs.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        await handle.signal(messages.LOOK_AGAIN_SIGNAL)
        assert (await handle.result())["phase"] == "Succeeded"


async def test_a_workflow_with_a_cron_schedule_is_refused_once(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await temporal.start_workflow(
            WORKFLOW_TYPE, REQUEST, id=f"cron-{task_queue}", task_queue=task_queue, cron_schedule="@every 1s"
        )
        error = await failure_of(handle)
        found = await handle.describe()
    assert error.type == "RequestRefused"
    assert "cronSchedule '@every 1s'" in error.message
    assert "use a Temporal schedule" in error.message
    assert "spec.schedule of an InferenceRun" in error.message
    assert (found.status, runs.asked) == (WorkflowExecutionStatus.FAILED, [])


async def test_a_retry_policy_of_the_start_does_not_repeat_a_run(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    policy = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_attempts=3)
    async with served(temporal, task_queue, runs):
        handle = await temporal.start_workflow(
            WORKFLOW_TYPE, REQUEST, id=f"retried-{task_queue}", task_queue=task_queue, retry_policy=policy
        )
        await until(lambda: handle.id in runs.made)
        await report(handle, runs, result_for(runs.made[handle.id], phase=Phase.FAILED, reason=Reason.INPUT_FAILED))
        assert (await failure_of(handle)).type == "InputFailed"
        found = [one async for one in temporal.list_workflows(f"WorkflowId = '{handle.id}'")]
    assert len(runs.asked) == 1
    assert len(found) <= 1


async def test_a_run_timeout_with_a_retry_policy_goes_on_with_the_same_run(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    policy = RetryPolicy(initial_interval=timedelta(milliseconds=100))
    async with served(temporal, task_queue, runs):
        handle = await temporal.start_workflow(
            WORKFLOW_TYPE,
            REQUEST,
            id=f"timed-out-{task_queue}",
            task_queue=task_queue,
            retry_policy=policy,
            run_timeout=timedelta(seconds=3),
        )
        await until(lambda: len(runs.asked) == 2)
        [made] = runs.made.values()
        await report(
            temporal.get_workflow_handle(handle.id),
            runs,
            result_for(made, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED),
        )
        assert (await asyncio.wait_for(handle.result(), WAIT_SECONDS))["uid"] == made.uid


async def test_an_argument_in_an_unknown_encoding_fails_the_workflow(temporal: Client, task_queue: str) -> None:
    async with served(temporal, task_queue, Runs()):
        error = await failure_of(await start(temporal, task_queue, SEALED))
    assert error.type == "RequestRefused"
    assert "not JSON" in str(error)


@pytest.mark.parametrize("size", [15_000, 15_400, 15_900, 16_000, 16_250])
async def test_a_large_request_is_passed_on_whole_or_refused(temporal: Client, task_queue: str, size: int) -> None:
    runs = Runs()
    request = {**REQUEST, "parameters": {"text": "x" * size}}
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue, request)
        if size > 15_500:
            error = await failure_of(handle)
            assert (error.type, runs.asked) == ("RequestRefused", [])
            assert "pass large parameters by reference" in str(error)
            return
        await until(lambda: handle.id in runs.made)
        await handle.terminate()
    [asked] = runs.asked
    assert asked.submission.parameters == request["parameters"]


async def test_a_rejection_is_the_submissions_failure(temporal: Client, task_queue: str) -> None:
    answer = SubmissionStatus(
        standing=SubmissionState.REFUSED, reason=Reason.REQUEST_MISMATCH, message="was used before"
    )
    async with served(temporal, task_queue, Runs(answer=answer)):
        error = await failure_of(await start(temporal, task_queue))
    assert (error.type, str(error)) == ("RequestMismatch", "RequestMismatch: was used before")


async def test_cancelling_the_submission_cancels_the_run_and_waits_for_its_end(
    temporal: Client, task_queue: str
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: handle.id in runs.made)
        await handle.cancel()
        await until(lambda: handle.id in runs.cancelled)
        assert (await handle.describe()).close_time is None
        end = result_for(runs.made[handle.id], phase=Phase.FAILED, reason=Reason.CANCELLED)
        await report(handle, runs, end)
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert isinstance(caught.value.cause, CancelledError)


async def test_a_submission_cancelled_while_its_run_is_created_leaves_no_run_behind(
    temporal: Client, task_queue: str
) -> None:
    runs = Runs()
    runs.may_create.clear()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: bool(runs.asked))
        await handle.cancel()
        runs.may_create.set()
        await until(lambda: handle.id in runs.cancelled)
        end = result_for(runs.made[handle.id], phase=Phase.FAILED, reason=Reason.CANCELLED)
        await report(handle, runs, end)
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert isinstance(caught.value.cause, CancelledError)


async def test_a_success_before_the_cancellation_is_kept(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: handle.id in runs.made)
        run = runs.made[handle.id]
        runs.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        await handle.cancel()
        got = await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert got["phase"] == "Succeeded"


async def test_a_scheduled_submission_whose_parent_is_gone_deletes_the_schedule(
    temporal: Client, task_queue: str
) -> None:
    runs = Runs(answer=SubmissionStatus(standing=SubmissionState.NO_PARENT))
    argument = {"namespace": "team", "parent": {"name": "nightly", "uid": "u-9"}}
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue, argument)
        assert await asyncio.wait_for(handle.result(), WAIT_SECONDS) is None
    assert runs.deleted_schedules == [RunRef(namespace="team", name="nightly", uid="u-9")]


async def test_a_waiting_submission_holds_no_activity(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: handle.id in runs.made)
        deadline = time.monotonic() + WAIT_SECONDS
        while not any(
            event.HasField("timer_started_event_attributes") for event in (await handle.fetch_history()).events
        ):
            assert time.monotonic() < deadline, "it does not wait"
        assert not (await handle.describe()).raw_description.pending_activities
        await handle.terminate()


async def test_a_submission_continued_as_new_follows_its_run_and_creates_no_other(
    temporal: Client, task_queue: str
) -> None:
    runs = Runs()
    runs.may_create.clear()
    foreign = RunRef(namespace="team", name="foreign", uid="another")
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: bool(runs.asked))
        for _ in range(CONTINUE_AS_NEW_AFTER):
            end = result_for(foreign, phase=Phase.FAILED, reason=Reason.STOPPED)
            await report(handle, runs, end)
        runs.may_create.set()
        latest = temporal.get_workflow_handle(handle.id)
        deadline = time.monotonic() + WAIT_SECONDS
        while (await latest.describe()).run_id == handle.first_execution_run_id:
            assert time.monotonic() < deadline, "it is not continued as new"
        run = runs.made[handle.id]
        await report(latest, runs, result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED))
        got = await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert got["uid"] == run.uid
    assert len(runs.asked) == 1

"""SubmitInferenceRun on a real Temporal server; behind the seam of the activity table, runs are
kept in memory."""

import time
import uuid
from datetime import timedelta

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError

from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from tests.published_schemas import violations
from tests.workflow.conftest import CONTINUE_AS_NEW_AFTER
from tests.workflow.stage import failure_of, in_time, is_cancelled, result_of
from tests.workflow.submissions import REQUEST, WAIT_SECONDS, FrontDoor, Handle, until
from workflows import messages
from workflows.messages import SubmissionState, SubmissionStatus

SEALED = RawValue(Payload(metadata={"encoding": b"binary/sealed"}, data=b"?"))


async def refusal_of(handle: Handle) -> str:
    """Why the submission is refused."""
    error = await failure_of(handle)
    assert error.type == "RequestRefused"
    return str(error)


async def test_the_signal_of_the_runs_end_is_the_submissions_result(runs: FrontDoor) -> None:
    handle = await runs.start()
    await runs.report(handle, message="150 of 150")
    got = await result_of(handle)
    assert (got["phase"], got["name"], got["message"]) == ("Succeeded", handle.id, "150 of 150")
    assert violations("run-result", got) == []


async def test_a_run_that_failed_fails_its_submission_with_its_reason(runs: FrontDoor) -> None:
    handle = await runs.start()
    run = await runs.report(
        handle, phase=Phase.FAILED, reason=Reason.INPUT_FAILED, message="the handler answered 500"
    )
    error = await failure_of(handle)
    assert (error.type, error.non_retryable) == ("InputFailed", True)
    assert "the handler answered 500" in str(error)
    assert error.details[0]["uid"] == run.uid
    failure = {"type": error.type, "message": error.message, "details": list(error.details)}
    assert violations("run-failure", failure) == []


async def test_a_run_that_has_ended_already_is_answered_at_once(runs: FrontDoor) -> None:
    key = f"done-{uuid.uuid4().hex[:8]}"
    run = RunRef(namespace="team", name=key, uid="u-1")
    runs.made[key] = run
    runs.succeed(run)
    handle = await runs.start(key=key)
    got = await result_of(handle)
    assert got["uid"] == "u-1"


async def test_nobody_can_follow_the_run_of_another_submission(runs: FrontDoor) -> None:
    victim = await runs.start()
    run = await runs.made_by(victim)
    following = {**REQUEST, "following": {"name": run.name, "uid": run.uid}}
    assert "following: unknown field" in await refusal_of(await runs.start(following))
    assert (runs.looks, runs.cancelled) == ([], [])
    await runs.report(victim)
    await result_of(victim)


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ({"configRef": "iris"}, "namespace: missing"),
        ({"namespace": "team"}, "configRef: missing"),
        ({"namespace": "team", "configRef": "iris", "timeoutSeconds": "soon"}, "timeoutSeconds: "),
        (
            {"namespace": "team", "configRef": "iris", "dryRun": "yes"},
            "dryRun: Input should be a valid boolean",
        ),
        (
            {"namespace": "team", "configRef": "iris", "timeout_second": 5},
            "timeout_second: unknown field",
        ),
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
    runs: FrontDoor, argument: object, named: str
) -> None:
    assert named in await refusal_of(await runs.start(argument))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "must be a JSON object"),
        ([REQUEST, REQUEST], "takes one argument (2 given)"),
        ([REQUEST, SEALED], "not JSON: KeyError: 'Unknown payload encoding binary/sealed'"),
    ],
)
async def test_more_or_less_than_one_argument_fails_the_workflow(
    runs: FrontDoor, arguments: list[object], text: str
) -> None:
    key = f"args-{uuid.uuid4().hex[:8]}"
    handle = await runs.client.start_workflow(
        WORKFLOW_TYPE, args=arguments, id=key, task_queue=runs.queue
    )
    assert text in await refusal_of(handle)


@pytest.mark.parametrize("argument", [None, "now"])
async def test_what_an_update_is_given_is_left_out(runs: FrontDoor, argument: object) -> None:
    """As Java's `stub.update("suspend", Map.class, (Object) null)` sends it."""
    handle = await runs.start()
    await handle.execute_update("suspend", argument)
    await handle.terminate()
    assert runs.suspended == {handle.id: True}


async def test_an_update_in_an_unknown_encoding_is_refused(runs: FrontDoor) -> None:
    handle = await runs.start()
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("suspend", SEALED)
    await handle.terminate()
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "RequestRefused"
    assert "not JSON" in refused.value.cause.message


async def test_what_a_signal_is_given_is_left_out(runs: FrontDoor) -> None:
    handle = await runs.start()
    await handle.signal(messages.LOOK_AGAIN_SIGNAL, "x")
    runs.succeed(await runs.made_by(handle))
    await handle.signal(messages.LOOK_AGAIN_SIGNAL)
    assert (await handle.result())["phase"] == "Succeeded"


async def test_a_workflow_with_a_cron_schedule_is_refused_once(runs: FrontDoor) -> None:
    handle = await runs.client.start_workflow(
        WORKFLOW_TYPE,
        REQUEST,
        id=f"cron-{runs.queue}",
        task_queue=runs.queue,
        cron_schedule="@every 1s",
    )
    error = await failure_of(handle)
    found = await handle.describe()
    assert error.type == "RequestRefused"
    assert "cronSchedule '@every 1s'" in error.message
    assert "use a Temporal schedule" in error.message
    assert "spec.schedule of an InferenceRun" in error.message
    assert (found.status, runs.asked) == (WorkflowExecutionStatus.FAILED, [])


async def test_a_retry_policy_of_the_start_does_not_repeat_a_run(runs: FrontDoor) -> None:
    policy = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_attempts=3)
    handle = await runs.client.start_workflow(
        WORKFLOW_TYPE,
        REQUEST,
        id=f"retried-{runs.queue}",
        task_queue=runs.queue,
        retry_policy=policy,
    )
    await runs.report(handle, phase=Phase.FAILED, reason=Reason.INPUT_FAILED)
    assert (await failure_of(handle)).type == "InputFailed"
    found = [one async for one in runs.client.list_workflows(f"WorkflowId = '{handle.id}'")]
    assert len(runs.asked) == 1
    assert len(found) <= 1


async def test_a_run_timeout_with_a_retry_policy_goes_on_with_the_same_run(runs: FrontDoor) -> None:
    policy = RetryPolicy(initial_interval=timedelta(milliseconds=100))
    handle = await runs.client.start_workflow(
        WORKFLOW_TYPE,
        REQUEST,
        id=f"timed-out-{runs.queue}",
        task_queue=runs.queue,
        retry_policy=policy,
        run_timeout=timedelta(seconds=3),
    )
    await until(lambda: len(runs.asked) == 2)
    [made] = runs.made.values()
    await runs.report(runs.client.get_workflow_handle(handle.id))
    assert (await result_of(handle))["uid"] == made.uid


async def test_an_argument_in_an_unknown_encoding_fails_the_workflow(runs: FrontDoor) -> None:
    assert "not JSON" in await refusal_of(await runs.start(SEALED))


@pytest.mark.parametrize("size", [15_000, 15_400, 15_900, 16_000, 16_250])
async def test_a_large_request_is_passed_on_whole_or_refused(runs: FrontDoor, size: int) -> None:
    request = {**REQUEST, "parameters": {"text": "x" * size}}
    handle = await runs.start(request)
    if size > 15_500:
        error = await failure_of(handle)
        assert (error.type, runs.asked) == ("RequestRefused", [])
        assert "pass large parameters by reference" in str(error)
        return
    await runs.made_by(handle)
    await handle.terminate()
    [asked] = runs.asked
    assert asked.submission.parameters == request["parameters"]


async def test_a_rejection_is_the_submissions_failure(runs: FrontDoor) -> None:
    answer = SubmissionStatus(
        standing=SubmissionState.REFUSED, reason=Reason.REQUEST_MISMATCH, message="was used before"
    )
    runs.answer = answer
    error = await failure_of(await runs.start())
    assert (error.type, str(error)) == ("RequestMismatch", "RequestMismatch: was used before")


async def test_cancelling_the_submission_cancels_the_run_and_waits_for_its_end(
    runs: FrontDoor,
) -> None:
    handle = await runs.start()
    await runs.made_by(handle)
    await handle.cancel()
    await until(lambda: handle.id in runs.cancelled)
    assert (await handle.describe()).close_time is None
    await runs.report(handle, phase=Phase.FAILED, reason=Reason.CANCELLED)
    assert await is_cancelled(handle)


async def test_a_submission_cancelled_while_its_run_is_created_leaves_no_run_behind(
    runs: FrontDoor,
) -> None:
    runs.may_create.clear()
    handle = await runs.start()
    await until(lambda: bool(runs.asked))
    await handle.cancel()
    runs.may_create.set()
    await until(lambda: handle.id in runs.cancelled)
    await runs.report(handle, phase=Phase.FAILED, reason=Reason.CANCELLED)
    assert await is_cancelled(handle)


async def test_a_success_before_the_cancellation_is_kept(runs: FrontDoor) -> None:
    handle = await runs.start()
    runs.succeed(await runs.made_by(handle))
    await handle.cancel()
    got = await result_of(handle)
    assert got["phase"] == "Succeeded"


async def test_a_scheduled_submission_whose_parent_is_gone_deletes_the_schedule(
    runs: FrontDoor,
) -> None:
    runs.answer = SubmissionStatus(standing=SubmissionState.NO_PARENT)
    argument = {"namespace": "team", "parent": {"name": "nightly", "uid": "u-9"}}
    handle = await runs.start(argument)
    assert await in_time(handle.result()) is None
    assert runs.deleted_schedules == [RunRef(namespace="team", name="nightly", uid="u-9")]


async def test_a_waiting_submission_holds_no_activity(runs: FrontDoor) -> None:
    handle = await runs.start()
    await runs.made_by(handle)
    deadline = time.monotonic() + WAIT_SECONDS
    while not any(
        event.HasField("timer_started_event_attributes")
        for event in (await handle.fetch_history()).events
    ):
        assert time.monotonic() < deadline, "it does not wait"
    assert not (await handle.describe()).raw_description.pending_activities
    await handle.terminate()


async def test_a_submission_continued_as_new_follows_its_run_and_creates_no_other(
    runs: FrontDoor,
) -> None:
    runs.may_create.clear()
    foreign = RunRef(namespace="team", name="foreign", uid="another")
    handle = await runs.start()
    await until(lambda: bool(runs.asked))
    for _ in range(CONTINUE_AS_NEW_AFTER):
        runs.end(foreign, phase=Phase.FAILED, reason=Reason.STOPPED)
        await handle.signal(messages.LOOK_AGAIN_SIGNAL)
    runs.may_create.set()
    latest = runs.client.get_workflow_handle(handle.id)
    deadline = time.monotonic() + WAIT_SECONDS
    while (await latest.describe()).run_id == handle.first_execution_run_id:
        assert time.monotonic() < deadline, "it is not continued as new"
    run = await runs.report(latest)
    got = await result_of(handle)
    assert got["uid"] == run.uid
    assert len(runs.asked) == 1

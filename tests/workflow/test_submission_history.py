"""Earlier submissions are found on a server that allows ten visibility requests per second."""

import asyncio
import time
import uuid

from temporalio.client import Client

from activities.submitting.submission_history import SubmissionHistory
from inferrun.reasons import Phase, Reason
from inferrun.submission import parse_submission
from tests.workflow.submissions import REQUEST, WAIT_SECONDS, Runs, result_for, served, start, until
from workflows import messages
from workflows.messages import SubmissionState, SubmissionStatus, SubmitInput

CROWD = 260


def again(workflow_id: str) -> SubmitInput:
    """The same submission, in a new execution."""
    return SubmitInput(submission=parse_submission(REQUEST), workflow_id=workflow_id)


async def end_one(client: Client, queue: str) -> str:
    """The id of a submission whose run has ended."""
    runs = Runs()
    async with served(client, queue, runs):
        handle = await start(client, queue)
        await until(lambda: handle.id in runs.made)
        end = result_for(runs.made[handle.id], phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        runs.results[end.uid] = end
        await handle.signal(messages.LOOK_AGAIN_SIGNAL)
        await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    return handle.id


async def test_a_crowd_of_submissions_is_compared_with_earlier_ones_within_seconds(
    temporal: Client, task_queue: str
) -> None:
    ended = [await end_one(temporal, task_queue) for _ in range(2)]
    history = SubmissionHistory(temporal, task_queue=task_queue)
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


async def test_an_execution_on_another_task_queue_is_no_earlier_submission(temporal: Client, task_queue: str) -> None:
    ended = await end_one(temporal, task_queue)
    own, other = (SubmissionHistory(temporal, task_queue=queue) for queue in (task_queue, "another"))
    deadline = time.monotonic() + WAIT_SECONDS
    while await own.find(again(ended)) is None:
        assert time.monotonic() < deadline, "the closed execution is not listed"
    assert await other.find(again(ended)) is None

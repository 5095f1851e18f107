"""Records the histories that the replay test replays:

    python -m tests.workflow.record_histories [SCENARIO ...]

Without a name all scenarios are recorded that have no file yet. A new step of a workflow gets a new
scenario. What differs from machine to machine (identities, stack traces) is left out.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.testing import WorkflowEnvironment

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.names import run_workflow_id
from inferrun.reasons import Phase, Reason
from inferrun.submission import WORKFLOW_TYPE
from tests.workflow.cluster import RUN, Cluster, Plan, fails, succeeds
from tests.workflow.sandbox import sandboxed_plugin
from tests.workflow.stage import Handle, Stage, in_time, on_stage, until
from tests.workflow.submissions import REQUEST, Runs, result_for, served
from tests.workflow.time_skipping import server_program
from workflows import messages
from workflows.messages import CleanupInput, RunEdit, SubmissionState, SubmissionStatus

HISTORIES = Path(__file__).parent / "histories"
MACHINES_OWN = ("stackTrace", "identity", "binaryChecksum")

Act = Callable[[Stage, Handle], Awaitable[None]]


async def _nothing(_stage: Stage, _handle: Handle) -> None:
    return


async def _cancel_after_30_seconds(stage: Stage, handle: Handle) -> None:
    await stage.pass_by(30)
    await handle.cancel()


async def _raise_the_timeout(stage: Stage, handle: Handle) -> None:
    await stage.pass_by(30)
    await stage.change_timeout(1000)


async def _look_again(stage: Stage, handle: Handle) -> None:
    await stage.pass_by(30)
    await handle.signal(messages.LOOK_AGAIN_SIGNAL)


async def _suspend_and_resume_by_updates(stage: Stage, handle: Handle) -> None:
    await stage.pass_by(30)
    await handle.execute_update(RunEdit.SUSPEND)
    await stage.pass_by(3600)
    await handle.execute_update(RunEdit.RESUME)


ENDLESS = Plan(ends_after=None)
NEVER_RAN = Verdict(
    kind=VerdictKind.NEVER_RAN, reason=Reason.CONTAINER_NOT_STARTED, message="it waited too long"
)
STUCK = Verdict(
    kind=VerdictKind.FAILED, reason=Reason.INVALID_IMAGE_NAME, message="no image", may_retry=False
)

SCENARIOS: dict[str, Callable[[], tuple[Cluster, Act]]] = {
    "succeeds": lambda: (Cluster(plans=[succeeds()], timeout_seconds=600), _nothing),
    "fails-twice-then-succeeds": lambda: (Cluster(plans=[fails(), fails(), succeeds()]), _nothing),
    "uses-up-its-attempts": lambda: (Cluster(plans=[fails()], backoff_limit=1), _nothing),
    "is-refused": lambda: (Cluster(refusal=Reason.NAME_TAKEN), _nothing),
    "was-deleted": lambda: (Cluster(is_deleted=True), _nothing),
    "waits-for-its-config": lambda: (
        Cluster(waits=[Reason.CONFIG_NOT_FOUND, Reason.CONFIG_NOT_READY]),
        _look_again,
    ),
    "reaches-its-deadline": lambda: (Cluster(plans=[ENDLESS], timeout_seconds=60), _nothing),
    "waits-too-long-to-start": lambda: (
        Cluster(plans=[Plan(starts_after=None, ends_after=None)], pending_timeout_seconds=60),
        _nothing,
    ),
    "waits-too-long-for-its-config": lambda: (
        Cluster(always_waits=Reason.CONFIG_NOT_FOUND, pending_timeout_seconds=60),
        _nothing,
    ),
    "never-ran-and-is-launched-again": lambda: (
        Cluster(plans=[Plan(starts_after=None, ends_after=60, verdict=NEVER_RAN), succeeds()]),
        _nothing,
    ),
    "cannot-start": lambda: (
        Cluster(plans=[Plan(starts_after=None, ends_after=5, verdict=STUCK, must_stop=True)]),
        _nothing,
    ),
    "loses-its-pod": lambda: (
        Cluster(plans=[Plan(taken_after=10, disruptions=1)], timeout_seconds=60),
        _nothing,
    ),
    "loses-its-pods-too-often": lambda: (
        Cluster(plans=[Plan(taken_after=10, disruptions=3)], max_disruptions=1),
        _nothing,
    ),
    "starts-just-before-its-waiting-is-over": lambda: (
        Cluster(
            plans=[succeeds(starts_after=5)], pending_timeout_seconds=60, start_is_seen_after=None
        ),
        _nothing,
    ),
    "is-past-its-deadline-when-its-start-is-seen": lambda: (
        Cluster(plans=[ENDLESS], timeout_seconds=10, start_is_seen_after=60),
        _nothing,
    ),
    "waits-for-room": lambda: (Cluster(waits=[Reason.QUOTA_EXCEEDED] * 3), _nothing),
    "gets-more-time": lambda: (
        Cluster(plans=[succeeds(ends_after=500)], timeout_seconds=100),
        _raise_the_timeout,
    ),
    "is-suspended-and-resumed-by-updates": lambda: (
        Cluster(plans=[ENDLESS, succeeds()]),
        _suspend_and_resume_by_updates,
    ),
    "is-cancelled-while-it-waits": lambda: (
        Cluster(always_waits=Reason.CONFIG_NOT_FOUND),
        _cancel_after_30_seconds,
    ),
    "is-cancelled-while-it-starts": lambda: (
        Cluster(plans=[Plan(starts_after=1000)]),
        _cancel_after_30_seconds,
    ),
    "is-cancelled-while-it-runs": lambda: (Cluster(plans=[ENDLESS]), _cancel_after_30_seconds),
}


async def record_run(environment: WorkflowEnvironment, *, name: str) -> str:
    """The history of one scenario of a run, as JSON."""
    cluster, act = SCENARIOS[name]()
    async with on_stage(environment, cluster, cached_workflows=1000) as stage:
        handle = await stage.start(run_workflow_id(RUN))
        await act(stage, handle)
        return await _history_of(handle)


async def record_cleanup(environment: WorkflowEnvironment) -> str:
    """The history of a clean-up, as JSON."""
    async with on_stage(environment, Cluster(), cached_workflows=1000) as stage:
        argument = CleanupInput(run=RUN, delay_seconds=300)
        handle = await environment.client.start_workflow(
            messages.CLEANUP_WORKFLOW, argument, id="cleanup", task_queue=stage.task_queue
        )
        return await _history_of(handle)


async def record_submission(environment: WorkflowEnvironment, *, is_cancelled: bool) -> str:
    """The history of a submission whose run succeeds, or is cancelled with it, as JSON."""
    front, queue = Runs(), "submissions"
    async with served(environment.client, queue, front):
        key = f"submission-{is_cancelled}"
        handle = await environment.client.start_workflow(
            WORKFLOW_TYPE, REQUEST, id=key, task_queue=queue
        )
        await until(lambda: _is_true(key in front.made))
        phase, reason = Phase.SUCCEEDED, Reason.SUCCEEDED
        if is_cancelled:
            await handle.cancel()
            await until(lambda: _is_true(key in front.cancelled))
            phase, reason = Phase.FAILED, Reason.CANCELLED
        run = front.made[key]
        front.results[run.uid] = result_for(run, phase=phase, reason=reason)
        await handle.signal(messages.LOOK_AGAIN_SIGNAL)
        return await _history_of(handle)


async def record_submission_that_looks(environment: WorkflowEnvironment) -> str:
    """The history of a submission that never got its signal, as JSON."""
    front, queue = Runs(), "submissions"
    async with served(environment.client, queue, front):
        key = "submission-looks"
        handle = await environment.client.start_workflow(
            WORKFLOW_TYPE, REQUEST, id=key, task_queue=queue
        )
        await until(lambda: _is_true(key in front.made))
        await environment.sleep(timedelta(minutes=15))
        run = front.made[key]
        front.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        return await _history_of(handle)


async def record_fire_without_parent(environment: WorkflowEnvironment) -> str:
    """The history of a schedule's fire whose InferenceRun is gone, as JSON."""
    front, queue = Runs(answer=SubmissionStatus(standing=SubmissionState.NO_PARENT)), "submissions"
    async with served(environment.client, queue, front):
        argument = {"namespace": "team", "parent": {"name": "nightly", "uid": "u-9"}}
        handle = await environment.client.start_workflow(
            WORKFLOW_TYPE, argument, id="fire", task_queue=queue
        )
        return await _history_of(handle)


async def _is_true(value: bool) -> bool:  # noqa: FBT001 -- the value is what it is about
    return value


RECORDERS: dict[str, Callable[[WorkflowEnvironment], Awaitable[str]]] = {
    **{name: partial(record_run, name=name) for name in SCENARIOS},
    "cleanup": record_cleanup,
    "submission": partial(record_submission, is_cancelled=False),
    "submission-looks-by-itself": record_submission_that_looks,
    "submission-of-a-schedule-that-is-gone": record_fire_without_parent,
    "submission-is-cancelled": partial(record_submission, is_cancelled=True),
}


async def _history_of(handle: Handle) -> str:
    with suppress(WorkflowFailureError):  # how it ends is part of the history
        await in_time(handle.result())
    history = json.loads((await handle.fetch_history()).to_json())
    return json.dumps(_portable(history), separators=(",", ":"), sort_keys=True) + "\n"


def _portable(value: Any) -> Any:  # Any: JSON
    if isinstance(value, dict):
        return {key: _portable(inner) for key, inner in value.items() if key not in MACHINES_OWN}
    return [_portable(inner) for inner in value] if isinstance(value, list) else value


async def _main(wanted: list[str]) -> None:
    HISTORIES.mkdir(exist_ok=True)
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=str(server_program()),
        plugins=[sandboxed_plugin()],
        test_server_startup_timeout=timedelta(seconds=60),
    )
    async with environment:
        for name, record in RECORDERS.items():
            path = HISTORIES / f"{name}.json"
            if name in wanted or (not wanted and not path.exists()):
                text = await record(environment)
                path.write_text(text, encoding="utf-8")
                sys.stdout.write(f"{path.name}: {len(json.loads(text)['events'])} events\n")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
    sys.stdout.flush()
    # Threads of Temporal's core may still let go of Python objects; now and then the interpreter,
    # ending, aborts on that.
    os._exit(0)

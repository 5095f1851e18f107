"""Simulated runs behind the activity table, for the tests of submissions."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import Progress, RunResult
from inferrun.submission import WORKFLOW_TYPE
from worker.progress_reads import ProgressReads
from workflows import activity_options, messages
from workflows.messages import (
    DeleteScheduleInput,
    DeletionResult,
    EditInput,
    OriginInput,
    OriginResult,
    RunEdit,
    RunRequest,
    SubmissionState,
    SubmissionStatus,
    SubmitInput,
)
from workflows.submit import SubmitInferenceRun

Handle = WorkflowHandle[Any, Any]  # Any: workflows are started by name

WAIT_SECONDS = 90
REQUEST = {"namespace": "team", "configRef": "iris", "parameters": {"day": "monday"}}


def result_for(ref: RunRef, *, phase: Phase, reason: Reason, message: str = "") -> RunResult:
    """How a run ended."""
    return RunResult(
        namespace=ref.namespace,
        name=ref.name,
        uid=ref.uid,
        phase=phase,
        reason=reason,
        message=message,
    )


@dataclass
class Runs:
    """What the activities act on: one run per submission, by workflow id."""

    made: dict[str, RunRef] = field(default_factory=dict)
    results: dict[str, RunResult] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    suspended: dict[str, bool] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    unreadable: Exception | None = None
    """Why no progress can be read."""
    deleted_schedules: list[RunRef] = field(default_factory=list)
    looks: list[datetime] = field(default_factory=list)
    asked: list[SubmitInput] = field(default_factory=list)
    answer: SubmissionStatus | None = None
    may_create: asyncio.Event = field(default_factory=asyncio.Event)
    may_edit: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_create.set()
        self.may_edit.set()

    @activity.defn(name=activity_options.SUBMIT.name)
    async def submit(self, request: SubmitInput) -> SubmissionStatus:
        self.asked.append(request)
        await self.may_create.wait()
        if self.answer is not None:
            return self.answer
        uid = str(uuid.uuid4())
        new = RunRef(namespace=request.submission.namespace, name=request.workflow_id, uid=uid)
        return self._standing(self.made.setdefault(request.workflow_id, new))

    @activity.defn(name=activity_options.READ_RUN.name)
    async def read(self, request: RunRequest) -> SubmissionStatus:
        self.looks.append(activity.info().scheduled_time)
        return self._standing(request.run)

    @activity.defn(name=activity_options.EDIT_RUN.name)
    async def edit(self, request: EditInput) -> SubmissionStatus:
        await self.may_edit.wait()
        if request.edit is RunEdit.CANCEL:
            self.cancelled.append(request.run.name)
        else:
            self.suspended[request.run.name] = request.edit is RunEdit.SUSPEND
        return self._standing(request.run)

    async def read_progress(self, run: RunRef) -> Progress | None:
        """What the run's status says."""
        if self.unreadable is not None:
            raise self.unreadable
        if run.uid in self.deleted:
            return None
        ended = self.results.get(run.uid)
        told = (
            {"phase": ended.phase, "reason": ended.reason}
            if ended is not None
            else {"phase": Phase.RUNNING}
        )
        is_cancelled, suspend = run.name in self.cancelled, self.suspended.get(run.name, False)
        return Progress.model_validate(
            {**run.model_dump(), **told, "suspend": suspend, "cancel_requested": is_cancelled}
        )

    @activity.defn(name=activity_options.DELETE_SCHEDULE.name)
    async def delete_schedule(self, request: DeleteScheduleInput) -> DeletionResult:
        self.deleted_schedules.append(request.parent)
        return DeletionResult()

    @activity.defn(name=activity_options.CHECK_ORIGIN.name)
    async def check_origin(self, request: OriginInput) -> OriginResult:
        assert request.continued_run_id
        return OriginResult(is_ours=True)

    def _standing(self, run: RunRef) -> SubmissionStatus:
        ended = self.results.get(run.uid)
        if ended is None:
            return SubmissionStatus(standing=SubmissionState.UNDER_WAY, run=run)
        return SubmissionStatus(standing=SubmissionState.ENDED, run=run, result=ended)


@dataclass
class FrontDoor(Runs):
    """Runs whose submissions a worker serves on a queue of their own."""

    client: Client = field(kw_only=True)
    queue: str = field(kw_only=True)

    async def start(self, argument: object = REQUEST, *, key: str | None = None) -> Handle:
        """Start a submission by the workflow's name, as a program does."""
        name = key or f"submission-{uuid.uuid4().hex[:8]}"
        return await self.client.start_workflow(
            WORKFLOW_TYPE, argument, id=name, task_queue=self.queue
        )

    async def made_by(self, submission: Handle) -> RunRef:
        """The run of the submission, once it exists."""
        await until(lambda: submission.id in self.made)
        return self.made[submission.id]

    def succeed(self, run: RunRef) -> None:
        """Let the run succeed, without a signal."""
        self.end(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)

    def end(self, run: RunRef, *, phase: Phase, reason: Reason, message: str = "") -> None:
        """Let the run end, without a signal."""
        self.results[run.uid] = result_for(run, phase=phase, reason=reason, message=message)

    async def report(
        self,
        submission: Handle,
        *,
        phase: Phase = Phase.SUCCEEDED,
        reason: Reason = Reason.SUCCEEDED,
        message: str = "",
    ) -> RunRef:
        """Let the run of the submission end, which its workflow signals."""
        run = await self.made_by(submission)
        self.end(run, phase=phase, reason=reason, message=message)
        await submission.signal(messages.LOOK_AGAIN_SIGNAL)
        return run


@asynccontextmanager
async def served(
    client: Client, queue: str, runs: Runs, *, cached_workflows: int = 1000
) -> AsyncIterator[None]:
    """A worker of the front door whose runs are in memory."""
    activities: list[Callable[..., object]] = [
        runs.submit,
        runs.read,
        runs.edit,
        runs.delete_schedule,
    ]
    activities.append(runs.check_origin)
    async with Worker(
        client,
        task_queue=queue,
        workflows=[SubmitInferenceRun],
        activities=activities,
        interceptors=[ProgressReads(runs.read_progress)],
        max_cached_workflows=cached_workflows,
    ):
        yield


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so, or fail."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def front_door(client: Client, *, cached_workflows: int = 1000) -> AsyncIterator[FrontDoor]:
    """A front door on a queue that no other test polls."""
    runs = FrontDoor(client=client, queue=f"test-{uuid.uuid4().hex[:12]}")
    async with served(client, runs.queue, runs, cached_workflows=cached_workflows):
        yield runs

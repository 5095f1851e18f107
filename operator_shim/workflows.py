"""Starts, signals, cancels and lists the workflows of runs. Every request has a time limit and then
raises TimeoutError."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client
from temporalio.common import (
    Priority,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from control.search_attributes import SearchAttributes
from control.spans import Span, start_span_id
from control.temporal_calls import (
    call_deadline,
    cancel_run,
    ignore_not_found,
    notify_submitter,
    read_run,
    signal_run,
    wake_run,
    workflow_ids,
)
from control.tracing import NO_TRACES, Traces
from control.work_queue import BACKOFF
from inferrun import wellknown
from inferrun.launches.run_clock import timeout_of
from inferrun.names import cleanup_workflow_id, run_workflow_id
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from inferrun.temporal.executions import OPEN, PAUSED, describe, list_executions
from inferrun.text import code_span, shell_command
from inferrun.timestamps import rfc3339
from workflows import messages
from workflows.messages import CleanupInput, RunInput, SpecChanged

LIST_TIMEOUT: Final = timedelta(seconds=10)
"""Time limit of each page; a page of a large visibility store takes longer than other requests."""


@dataclass(frozen=True, kw_only=True)
class StartTiming:
    """Seconds about starts that fail. A start is tried again at the latest after the longest pause
    of the queue, unless its run is deleted."""

    tolerated: float = 30.0
    """The time for which the shim stays ready while every start fails."""

    forgotten: float = 90.0
    """The time for which a failure counts."""

    def __post_init__(self) -> None:
        if not max(self.tolerated, BACKOFF.longest) < self.forgotten:
            raise ValueError(f"needs tolerated, the longest pause < forgotten, not {self}")


STARTING: Final = StartTiming()


@dataclass(frozen=True)
class OpenWorkflow:
    """The open workflow under the id of a run: how often its task was tried, and the length of its
    history."""

    id: str
    run_id: str
    task_attempt: int
    events: int
    is_ours: bool = True
    """Whether this installation executes it."""

    pause: str = ""
    """The pause, and who paused it; empty if it is not paused."""


class RunWorkflows:
    """The workflows that execute the runs of one installation."""

    def __init__(
        self,
        client: Client,
        *,
        installation: str,
        task_queue: str,
        attributes: SearchAttributes,
        traces: Traces = NO_TRACES,
        tolerated_seconds: float = STARTING.tolerated,
    ) -> None:
        self._client = client
        self._installation = installation
        self._task_queue = task_queue
        self._attributes = attributes
        self._traces = traces
        self._tolerated_seconds = tolerated_seconds
        self._failing_since: float | None = None
        self._failed_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether workflows can be started: False while every start has failed for
        `tolerated_seconds`."""
        if self._failing_since is None or self._is_forgotten():
            return True
        return asyncio.get_running_loop().time() - self._failing_since < self._tolerated_seconds

    async def ensure(self, run: InferenceRun, *, is_new: bool = False) -> None:
        """Make sure that a workflow executes the run: an existing one, a new one, or a recovery
        workflow.

        `is_new`: nothing has been heard of one.
        """
        own, recovery = workflow_ids(run.ref)
        try:
            await self._start(run, workflow_id=own, reuse=WorkflowIDReusePolicy.REJECT_DUPLICATE)
        except WorkflowAlreadyStartedError:
            # It closed before the run ended: it was terminated or failed. A recovery workflow
            # adopts the Job.
            await self._start(
                run, workflow_id=recovery, reuse=WorkflowIDReusePolicy.ALLOW_DUPLICATE
            )
        if is_new and (created := run.metadata.creation_timestamp) is not None:
            span_id, now = start_span_id(run.metadata.uid), datetime.now(UTC)
            self._traces.add(
                Span(run=run.ref, name="start the workflow", start=created, end=now, id=span_id)
            )

    async def recheck(self, run: RunRef) -> None:
        await wake_run(self._client, run, messages.LOOK_AGAIN_SIGNAL)

    async def spec_changed(self, run: InferenceRun) -> None:
        """Send the run's workflow the fields that take effect during execution."""
        change = SpecChanged(timeout_seconds=timeout_of(run.spec), suspend=bool(run.spec.suspend))
        await signal_run(self._client, run.ref, messages.SPEC_CHANGED_SIGNAL, change)

    async def cancel(self, run: RunRef) -> None:
        """Cancel the workflows that execute the run; succeeds if none is open."""
        await cancel_run(self._client, run)

    async def clean_up(self, run: RunRef) -> None:
        """Start the workflow that deletes a finished run, at once; succeeds if there is one."""
        async with call_deadline():
            await self._client.start_workflow(
                messages.CLEANUP_WORKFLOW,
                CleanupInput(run=run, delay_seconds=0, because="its status.deleteAfter has passed"),
                id=cleanup_workflow_id(run_workflow_id(run)),
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                memo={"installation": self._installation},
                static_summary=f"delete InferenceRun {run}",
            )

    async def find_open(self, run: RunRef) -> OpenWorkflow | None:
        """The open workflow under one of the run's ids; the recovery if both are open."""
        for workflow_id in reversed(workflow_ids(run)):
            with ignore_not_found():
                async with call_deadline():
                    found = await describe(self._client, workflow_id)
                if found.is_open:
                    is_ours = (found.workflow_type, found.task_queue) == (
                        messages.RUN_WORKFLOW,
                        self._task_queue,
                    )
                    return OpenWorkflow(
                        workflow_id,
                        found.run_id,
                        found.task_attempt,
                        found.events,
                        is_ours,
                        found.pause,
                    )
        return None

    async def terminate(self, workflow: OpenWorkflow, *, reason: str) -> None:
        """End a workflow that cannot end on its own; one that has closed meanwhile is success."""
        with ignore_not_found():
            async with call_deadline():
                handle = self._client.get_workflow_handle(workflow.id, run_id=workflow.run_id)
                await handle.terminate(reason=reason)

    async def list_open(self) -> list[RunRef]:
        """The runs with an open workflow. Temporal lists a new workflow with a short delay."""
        return await self._list(OPEN)

    async def list_paused(self) -> list[RunRef]:
        """Those whose open workflow is paused; a server that rejects the filter, as before 1.30,
        has none."""
        try:
            return await self._list(PAUSED)
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            return []

    async def count_open(self) -> int:
        """The number of workflows of runs on our task queue that are open and not held: for this
        filter a server has an index."""
        query = f"{self._of_ours} AND ExecutionStatus = 'Running'"
        return (await self._client.count_workflows(query, rpc_timeout=LIST_TIMEOUT)).count

    async def list_terminated(self, *, since: datetime) -> list[RunRef]:
        return await self._list(
            f"ExecutionStatus = 'Terminated' AND CloseTime >= '{rfc3339(since)}'"
        )

    async def _list(self, condition: str) -> list[RunRef]:
        """Filters by attributes that every server has, because ours may be missing; the memo names
        the installation."""
        listed = list_executions(
            self._client, f"{self._of_ours} AND {condition}", page_timeout=LIST_TIMEOUT
        )
        found = [await read_run(item, installation=self._installation) async for item in listed]
        return [run for run in found if run is not None]

    @property
    def _of_ours(self) -> str:
        return f"WorkflowType = '{messages.RUN_WORKFLOW}' AND TaskQueue = '{self._task_queue}'"

    async def notify_submitter_of_deletion(self, run: InferenceRun) -> None:
        """Tell the submitting workflow that its run was deleted, because no outcome will be
        recorded for it."""
        submitter = run.metadata.annotations.get(wellknown.ANNOTATION_WORKFLOW_ID, "")
        await notify_submitter(self._client, submitter, run.ref, signal=messages.LOOK_AGAIN_SIGNAL)

    async def _start(
        self, run: InferenceRun, *, workflow_id: str, reuse: WorkflowIDReusePolicy
    ) -> None:
        metadata = run.metadata
        title = f"{metadata.namespace}/{metadata.name}"
        given = RunInput(
            **run.ref.model_dump(),
            submitter=metadata.annotations.get(wellknown.ANNOTATION_WORKFLOW_ID, ""),
        )

        span = (
            {"interval": run.spec.interval.to_manifest()} if run.spec.interval is not None else {}
        )

        async def start(values: TypedSearchAttributes) -> None:
            async with call_deadline():
                await self._client.start_workflow(
                    messages.RUN_WORKFLOW,
                    given,
                    id=workflow_id,
                    task_queue=self._task_queue,
                    id_reuse_policy=reuse,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    memo={"installation": self._installation, "run": run.ref} | span,
                    search_attributes=values,
                    static_summary=f"{title}: {_purpose(run)}",
                    static_details=_details(run),
                    priority=Priority(fairness_key=metadata.namespace),
                )

        try:
            await self._attributes.send(start, run=title, config=run.config_name)
        except (RPCError, TimeoutError):
            now = asyncio.get_running_loop().time()
            if self._failing_since is None or self._is_forgotten():
                self._failing_since = now
            self._failed_at = now
            raise
        except WorkflowAlreadyStartedError:
            self._failing_since = None
            raise
        self._failing_since = None

    def _is_forgotten(self) -> bool:
        """Whether the last start failed too long ago to count."""
        return asyncio.get_running_loop().time() - self._failed_at >= STARTING.forgotten


def _details(run: InferenceRun) -> str:
    metadata = run.metadata
    limit = f"{run.spec.timeout_seconds} s" if run.spec.timeout_seconds else "none"
    command = shell_command(
        "kubectl", "describe", "inferencerun", metadata.name, "-n", metadata.namespace
    )
    return (
        f"InferenceRun {code_span(metadata.name)} in namespace {code_span(metadata.namespace)}, "
        f"{_purpose(run)}, time limit: {limit}.\n\n{code_span(command)}"
    )


def _purpose(run: InferenceRun) -> str:
    if run.spec.backfill is not None:
        return f"back-fill of schedule {code_span(run.spec.backfill.schedule)}"
    return f"InferenceConfig {code_span(run.config_name)}"

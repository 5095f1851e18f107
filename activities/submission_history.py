"""What Temporal remembers of runs that have since been deleted: earlier submissions with the same
workflow id, and the run that an earlier try of the same submission created.

By default the server's visibility API allows ten requests per second and namespace, which the
shim's sweep needs as well. So it is asked only before a run is created for a program and by later
tries, and submissions that arrive at the same time share the request for earlier ones. Any program
can execute a workflow of that type and id with any result: only those on our own task queue count.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from control.runs.submissions import mismatched, submission_status
from control.temporal_calls import ignore_not_found, read_run, read_submission
from inferrun.names import run_workflow_id, submitted_run_name
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.executions import CLOSED, Execution, list_executions
from inferrun.timestamps import rfc3339
from workflows.messages import RUN_WORKFLOW, SubmissionState, SubmissionStatus, SubmitInput

PAUSE_SECONDS = 1.0
"""The seconds between two requests. The first one after a pause does not wait."""

IDS_LIMIT = 100
"""Workflow ids in a request; each has at most 1,000 characters."""

FILTERABLE_ID: Final = re.compile(r"[^\x00-\x1f\x7f'\"\\?]*")
"""Workflow ids that a list filter finds. No literal finds one with a backslash, a double quote, a
control character, or an apostrophe at an end: the filter's parser takes escapes away, and what
follows it adds others. On PostgreSQL, a question mark in a literal is taken for a parameter, and
every request fails (servers 1.29.1 and 1.32.1; on PostgreSQL 1.29.1)."""

ROUNDING: Final = timedelta(seconds=1)
"""Filters have times in whole seconds."""

END_MARGIN: Final = timedelta(minutes=1)
"""A submission hears of the end of its run before the run's workflow closes."""

Executions = Mapping[str, list[Execution]]
"""The executions of each workflow id, the latest first."""


@contextmanager
def _ignore_refusal() -> Iterator[None]:
    """A server may not let the worker list workflows."""
    try:
        yield
    except RPCError as error:
        if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            raise


@dataclass
class _Batch:
    ids: set[str] = field(default_factory=set)
    answer: "asyncio.Task[Executions] | None" = None


class SubmissionHistory:
    """The retained executions of one installation."""

    def __init__(self, temporal: Client, *, task_queue: str, installation: str) -> None:
        self._temporal = temporal
        self._installation = installation
        self._task_queue = task_queue
        self._batch = _Batch()
        """The ids that the next request asks for."""
        self._turn = asyncio.Lock()
        """Held for a while by each request."""

    async def find_deleted(
        self, namespace: str, name: str, *, since: datetime
    ) -> SubmissionStatus | None:
        """The end of a run of that name, which is gone, by the workflows that have been started for
        it since; None without any."""
        gone = None
        with _ignore_refusal():
            async for execution, run in self._of_runs(
                namespace, name, also=f"AND StartTime >= '{rfc3339(since)}'"
            ):
                gone = submission_status(run, None)
                if (result := await self._result(execution)) is not None:
                    return SubmissionStatus(standing=SubmissionState.ENDED, run=run, result=result)
        return gone

    async def _of_runs(
        self, namespace: str, name: str, *, also: str = ""
    ) -> AsyncIterator[tuple[Execution, RunRef]]:
        """The workflows that have executed runs of that name, and these runs."""
        prefix = run_workflow_id(RunRef(namespace=namespace, name=name, uid=""))
        ours = f"WorkflowType = '{RUN_WORKFLOW}' AND TaskQueue = '{self._task_queue}'"
        async for execution in list_executions(
            self._temporal, f"{ours} AND WorkflowId STARTS_WITH '{prefix}' {also}"
        ):
            run = await read_run(execution, installation=self._installation)
            if run is not None and run.name == name:
                yield execution, run

    async def find(self, request: SubmitInput) -> SubmissionStatus | None:
        """The end of the earlier submission with that id, or its mismatch; None if there is none
        whose run ended."""
        workflow_id = request.workflow_id
        with _ignore_refusal():
            is_filterable = FILTERABLE_ID.fullmatch(workflow_id) is not None
            for execution in await (
                self._closed(workflow_id) if is_filterable else self._closed_around_run(request)
            ):
                result = await self._result(execution)
                if result is None:
                    continue
                earlier = await read_submission(
                    self._temporal, workflow_id, run_id=execution.run_id
                )
                if earlier is None or earlier.request_hash != request.submission.request_hash:
                    return mismatched(workflow_id)
                run = RunRef(namespace=result.namespace, name=result.name, uid=result.uid)
                return SubmissionStatus(standing=SubmissionState.ENDED, run=run, result=result)
        return None

    async def _closed_around_run(self, request: SubmitInput) -> list[Execution]:
        """Those with an id that no filter finds: they were open while a run of its name was
        executed, and the name has a digest of the id."""
        await self._take_turn()
        found = []
        name = submitted_run_name(request.workflow_id)
        async for run, _ in self._of_runs(request.submission.namespace, name):
            started = run.info.start_time.ToDatetime(tzinfo=UTC)
            latest, earliest = started + ROUNDING, (run.closed_at or started) - END_MARGIN
            query = (
                f"WorkflowType = '{WORKFLOW_TYPE}' AND TaskQueue = '{self._task_queue}' AND {CLOSED} "
                f"AND StartTime <= '{rfc3339(latest)}' AND CloseTime >= '{rfc3339(earliest)}'"
            )
            found += [
                one
                async for one in list_executions(self._temporal, query)
                if one.id == request.workflow_id
            ]
        return found

    async def _take_turn(self) -> None:
        await self._turn.acquire()
        asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._turn.release)

    async def _closed(self, workflow_id: str) -> list[Execution]:
        if len(self._batch.ids) >= IDS_LIMIT:
            self._batch = _Batch()
        batch = self._batch
        batch.ids.add(workflow_id)
        if batch.answer is None:
            batch.answer = asyncio.create_task(self._list(batch))
        return (await asyncio.shield(batch.answer)).get(workflow_id, [])

    async def _list(self, batch: _Batch) -> Executions:
        await self._take_turn()
        if batch is self._batch:
            self._batch = _Batch()  # ids that arrive from now on are asked for next
        ids = ", ".join(f"'{one}'" for one in sorted(batch.ids))
        query = f"WorkflowType = '{WORKFLOW_TYPE}' AND {CLOSED} AND WorkflowId IN ({ids})"
        found: dict[str, list[Execution]] = defaultdict(list)
        async for execution in list_executions(self._temporal, query):
            if execution.task_queue == self._task_queue:
                found[execution.id].append(execution)
        return found

    async def _result(self, execution: Execution) -> RunResult | None:
        """The result of an execution, also of one whose run failed; None if it is open, or closed
        in any other way."""
        if execution.is_open:
            return None
        handle = self._temporal.get_workflow_handle(
            execution.id, run_id=execution.run_id, result_type=RunResult
        )
        try:
            with ignore_not_found():
                result: RunResult | None = await handle.result(follow_runs=False)
                return result
        except WorkflowFailureError as failure:
            cause = failure.cause
            if isinstance(cause, ApplicationError) and cause.details:
                return RunResult.model_validate(cause.details[0])
        except WorkflowContinuedAsNewError:
            pass  # a later execution of the same submission has the result
        return None

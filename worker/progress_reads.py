"""Lets queries and the validators of updates read a run at once: they may not execute activities.

Nothing that they read is recorded in the history of their workflow. They run in the thread of a
workflow task, which must not be held up: a read is given up after READ_SECONDS, and for a while
none is tried again.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from control.trust.callers import Caller, refusal_of_run
from inferrun.kube.errors import KubeError
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import Progress
from workflows.messages import RUN_WORKFLOW, refused
from workflows.run_controls import READ_PROGRESS

READ_SECONDS: Final = 0.5
"""The API server answers within milliseconds. After 2 seconds, the SDK would take the workflow for
deadlocked."""

PAUSE_SECONDS: Final = 1.0
"""After a read that failed: several of a workflow may follow each other in one task."""


class ProgressReads(Interceptor):
    """Created in the event loop in which `read` can be awaited."""

    # Any: as in typeshed
    def __init__(self, read: Callable[[RunRef], Coroutine[Any, Any, Progress | None]]) -> None:
        self._read = read
        self._loop = asyncio.get_running_loop()
        self._resumes_at = 0.0

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 -- the SDK's name
    ) -> type[WorkflowInboundInterceptor] | None:
        input.unsafe_extern_functions[READ_PROGRESS] = self.read_now
        return None

    def read_now(self, run: RunRef) -> Progress | None:
        """The progress as described in `workflows.run_controls`; called in the thread of a
        workflow."""
        info = workflow.info()
        if info.workflow_type == RUN_WORKFLOW and (
            refusal := refusal_of_run(run, Caller(info.workflow_type, info.workflow_id))
        ):
            raise refused(refusal)
        if time.monotonic() < self._resumes_at:
            raise _unreadable(run)
        reading = asyncio.run_coroutine_threadsafe(self._read(run), self._loop)
        try:
            return reading.result(READ_SECONDS)
        except (KubeError, TimeoutError) as error:
            reading.cancel()
            self._resumes_at = time.monotonic() + PAUSE_SECONDS
            raise _unreadable(run) from error


def _unreadable(run: RunRef) -> ApplicationError:
    return ApplicationError(
        f"InferenceRun {run} cannot be read now; try again", type=str(Reason.REQUEST_REFUSED)
    )

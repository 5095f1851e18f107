"""A span for each activity that does something for a run, in the run's trace."""

from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from control.spans import Span
from control.tracing import Traces
from inferrun.run_ref import RunRef
from inferrun.text import one_line

ERROR_LIMIT = 512


class ActivitySpans(Interceptor):
    def __init__(self, traces: Traces) -> None:
        self._traces = traces

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 -- the SDK's name
        return _TracedActivity(next, self._traces)


class _TracedActivity(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, traces: Traces) -> None:
        super().__init__(following)
        self._traces = traces

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 -- the SDK's name; any result
        start, result, error = datetime.now(UTC), None, ""
        try:
            result = await self.next.execute_activity(input)
        except BaseException as failure:
            error = one_line(f"{type(failure).__name__}: {failure}", limit=ERROR_LIMIT)
            raise
        finally:
            argument, info = input.args[0] if input.args else None, activity.info()
            # A submission creates the run.
            run = getattr(argument, "run", None) or getattr(result, "run", None)
            if isinstance(run, RunRef):
                span = Span(
                    run=run,
                    name=info.activity_type,
                    start=start,
                    end=datetime.now(UTC),
                    error=error,
                    attributes={
                        "inferrun.launch": getattr(argument, "launch", None),
                        "inferrun.attempt": getattr(argument, "attempt", None),
                        "temporal.workflow.id": info.workflow_id,
                        "temporal.workflow.run_id": info.workflow_run_id,
                        "temporal.activity.attempt": info.attempt,
                    },
                )
                self._traces.add(span)
        return result

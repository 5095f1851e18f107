"""Refuses arguments that other programs' clients got wrong: another number of them for a workflow,
or an unknown encoding.

Python's own errors would name our functions, and the server would try the workflow's task again for
ever. Queries, updates and signals without parameters need no count: the SDK leaves out what they
are given (temporalio 1.35), and its core a single null.
"""

import inspect
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from inferrun.reasons import Reason


def undecodable(error: Exception) -> ApplicationError:
    """The refusal of arguments that no converter can read."""
    return _refused(f"the arguments are not JSON: {type(error).__name__}: {error}")


def _refused(text: str) -> ApplicationError:
    """To be raised without a cause: clients show the innermost one, which says nothing to those who
    sent the arguments."""
    return ApplicationError(text, type=str(Reason.REQUEST_REFUSED), non_retryable=True)


class ArgumentCheck(Interceptor):
    """Counts the arguments of a workflow before it is executed with them."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002 -- the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """The check, which the SDK makes for each workflow."""
        return _Check


class _Check(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 -- as in the base class; so is Any
        try:
            inspect.signature(input.run_fn).bind(None, *input.args)
        except TypeError:
            raise _refused(f"the workflow takes one argument ({len(input.args)} given)") from None
        return await super().execute_workflow(input)

"""Pauses the workflows of one case, and resumes them, as a person does with Temporal's UI or its
command line."""

import asyncio
from contextlib import suppress
from typing import Final

from temporalio.api.workflowservice.v1 import (
    PauseWorkflowExecutionRequest,
    UnpauseWorkflowExecutionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

from inferrun.temporal.executions import OPEN, PAUSED, list_executions

PAUSED_SECONDS: Final = 90.0
"""How long a pause lasts: the shim looks for paused workflows of runs that are more than a minute
old."""

LISTED_SECONDS: Final = 0.7
"""Until Temporal lists what was just started."""


async def pause_workflows(temporal: Client, token: str) -> None:
    """Pause every open workflow of the case."""
    await asyncio.sleep(LISTED_SECONDS)
    for identity in await _listed(temporal, token, OPEN):
        with suppress(RPCError):  # it has closed, or is paused
            await temporal.workflow_service.pause_workflow_execution(
                PauseWorkflowExecutionRequest(
                    namespace=temporal.namespace,
                    workflow_id=identity,
                    identity="tests",
                    reason="a fault",
                )
            )


async def resume_workflows(temporal: Client, token: str) -> None:
    """Resume every paused workflow of the case."""
    for identity in await _listed(temporal, token, PAUSED):
        with suppress(RPCError):
            await temporal.workflow_service.unpause_workflow_execution(
                UnpauseWorkflowExecutionRequest(
                    namespace=temporal.namespace, workflow_id=identity, identity="tests"
                )
            )


async def _listed(temporal: Client, token: str, query: str) -> list[str]:
    with suppress(RPCError):  # a server that is busy lists them the next time
        return [one.id async for one in list_executions(temporal, query) if token in one.id]
    return []

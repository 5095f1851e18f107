"""Sends the observer's signals to the workflow of a run, through Temporal."""

import asyncio
from typing import Protocol

from pydantic import BaseModel
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from control.run_workflows import wake_run
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef
from workflows.messages import LOOK_AGAIN_SIGNAL
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, Started

RPC_TIMEOUT_SECONDS = 10.0


class SignalSender(Protocol):
    """What the reconciler needs of Temporal. Each method returns whether a workflow accepted the signal; it raises
    `SignalNotSent` if Temporal did not answer or refused.
    """

    async def started(self, run: RunRef, signal: Started) -> bool:
        """Send `started`."""

    async def ended(self, run: RunRef, signal: Ended, *, is_repeated: bool) -> bool:
        """Send `ended`."""


class SignalNotSent(Exception):
    """Temporal did not take the signal; the same signal may succeed later."""


class RunSignals:
    """`SignalSender` through a Temporal client.

    A run's workflow may have been replaced by its recovery while the first one is still open (stuck). `started` and
    repeated signals therefore go to both; the first `ended` goes to the recovery only if the first one is closed.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def look_again(self, run: RunRef) -> None:
        """Have the run check what it waits for; no open workflow is success. Raises RPCError or TimeoutError."""
        await wake_run(self._client, run, LOOK_AGAIN_SIGNAL)

    async def started(self, run: RunRef, signal: Started) -> bool:
        """Send `started` to the run's workflow and its recovery."""
        return await self._send_to_both(run, STARTED_SIGNAL, signal)

    async def ended(self, run: RunRef, signal: Ended, *, is_repeated: bool) -> bool:
        """Send `ended` to the run's workflow, and to its recovery if the first one is closed or this is a repetition."""
        if is_repeated:
            return await self._send_to_both(run, ENDED_SIGNAL, signal)
        first, recovery = _ids(run)
        return await self._send(first, ENDED_SIGNAL, signal) or await self._send(recovery, ENDED_SIGNAL, signal)

    async def _send_to_both(self, run: RunRef, name: str, signal: BaseModel) -> bool:
        return any(await asyncio.gather(*(self._send(workflow, name, signal) for workflow in _ids(run))))

    async def _send(self, workflow: str, name: str, signal: BaseModel) -> bool:
        """Whether there is an open workflow of that id. If there is none, the shim starts one, which looks by itself."""
        try:
            async with asyncio.timeout(RPC_TIMEOUT_SECONDS):
                await self._client.get_workflow_handle(workflow).signal(name, signal)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise SignalNotSent(f"{name} to {workflow}: {error.message}") from error
        except TimeoutError as error:
            raise SignalNotSent(f"{name} to {workflow}: no answer within {RPC_TIMEOUT_SECONDS:.0f} s") from error
        return True


def _ids(run: RunRef) -> tuple[str, str]:
    first = run_workflow_id(run)
    return first, recover_workflow_id(first)

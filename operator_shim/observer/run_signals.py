"""Sends the observer's signals to the workflow of a run, through Temporal."""

from temporalio.client import Client

from control.temporal_calls import signal_run, wake_run
from inferrun.run_ref import RunRef
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, Started


class RunSignals:
    """`started` and `ended` return whether a workflow accepted the signal. All methods raise
    RPCError or TimeoutError.

    A run's workflow may have been replaced by its recovery while the first one is still open
    (stuck). `started` and repeated signals therefore go to both; the first `ended` goes to the
    recovery only if the first one is closed.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def started(self, run: RunRef, signal: Started) -> bool:
        """Send `started` to the run's workflow and its recovery."""
        return await signal_run(self._client, run, STARTED_SIGNAL, signal)

    async def ended(self, run: RunRef, signal: Ended, *, is_repeated: bool) -> bool:
        """Send `ended` to the run's workflow, and to its recovery if the first one is closed or
        this is a repetition."""
        if is_repeated:
            return await signal_run(self._client, run, ENDED_SIGNAL, signal)
        return await wake_run(self._client, run, ENDED_SIGNAL, signal)

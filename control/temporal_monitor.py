"""Watches the connection to Temporal: whether the server answers, and whether it is still the same database.

A namespace id is assigned when a namespace is created. If it changes, the database behind the address was replaced or
restored from nothing, and every workflow that this process believes to exist is gone. Restarting is the one reaction
that leaves no stale state behind.
"""

import asyncio
import logging
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from control.deadline import call_deadline

logger = logging.getLogger(__name__)

INTERVAL: Final = 5.0
"""Seconds between two requests; together with the time limit of a request, a replacement is noticed within 10 s."""

TOLERATED_SECONDS: Final = 30.0
"""A process stays ready for this long without an answer: a server that restarts is no reason for an alarm."""


class NamespaceReplaced(RuntimeError):
    """Another namespace of the same name answers; the process must restart."""


class TemporalMonitor:
    """Run it as one task."""

    def __init__(
        self, client: Client, *, interval: float = INTERVAL, tolerated_seconds: float = TOLERATED_SECONDS
    ) -> None:
        self._client = client
        self._interval = interval
        self._tolerated_seconds = tolerated_seconds
        self._namespace_id: str | None = None
        self._is_reachable = True
        self._answered_at: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the server has answered within `tolerated_seconds`."""
        if self._answered_at is None:
            return True  # not running yet
        return asyncio.get_running_loop().time() - self._answered_at < self._tolerated_seconds

    async def run(self) -> None:
        """Watch until cancelled. Raises NamespaceReplaced."""
        self._answered_at = asyncio.get_running_loop().time()
        while True:
            try:
                await self._check()
            except (RPCError, TimeoutError) as error:
                self._report(is_reachable=False, error=f"{type(error).__name__}: {error}"[:500])
            await asyncio.sleep(self._interval)

    async def _check(self) -> None:
        request = DescribeNamespaceRequest(namespace=self._client.namespace)
        async with call_deadline():
            answer = await self._client.workflow_service.describe_namespace(request)
        found = answer.namespace_info.id
        if self._namespace_id is not None and found != self._namespace_id:
            raise NamespaceReplaced(
                f"the Temporal namespace {self._client.namespace!r} was replaced: its id was {self._namespace_id} and is "
                f"{found}; the process restarts to start the workflows of all unfinished runs again"
            )
        self._namespace_id = found
        self._answered_at = asyncio.get_running_loop().time()
        self._report(is_reachable=True)

    def _report(self, *, is_reachable: bool, error: str = "") -> None:
        """Log changes only."""
        if is_reachable == self._is_reachable:
            return
        self._is_reachable = is_reachable
        if is_reachable:
            logger.info("Temporal is reachable again")
        else:
            logger.warning("Temporal is unreachable", extra={"error": error})

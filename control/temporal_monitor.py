"""Watches the connection to Temporal: whether the server answers, and whether it is still the same
database.

A namespace id is assigned when a namespace is created. If it changes, the database behind the
address was replaced or restored from nothing, and every workflow that this process believes to
exist is gone. Restarting is the one reaction that leaves no stale state behind.
"""

import asyncio
import logging

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from control.temporal_calls import TIMING, call_deadline

logger = logging.getLogger(__name__)


class NamespaceReplaced(RuntimeError):
    """Another namespace of the same name answers; the process must restart."""


class TemporalMonitor:
    """Run it as one task."""

    def __init__(
        self,
        client: Client,
        *,
        interval: float = TIMING.interval,
        tolerated_seconds: float = TIMING.tolerated,
    ) -> None:
        self._client = client
        self._interval = interval
        self._tolerated_seconds = tolerated_seconds
        self._answered_at: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the server has answered within `tolerated_seconds`."""
        if self._answered_at is None:
            return True  # not running yet
        return asyncio.get_running_loop().time() - self._answered_at < self._tolerated_seconds

    async def run(self) -> None:
        """Watch until cancelled. Raises NamespaceReplaced."""
        loop, namespace_id, is_reachable = asyncio.get_running_loop(), "", True
        request = DescribeNamespaceRequest(namespace=self._client.namespace)
        self._answered_at = loop.time()
        while True:
            try:
                async with call_deadline():
                    found = (
                        await self._client.workflow_service.describe_namespace(request)
                    ).namespace_info.id
            except Exception as error:  # noqa: BLE001 -- whatever it answers, the next answer may be right
                if is_reachable:
                    fields = {"error": f"{type(error).__name__}: {error}"[:500]}
                    logger.warning("Temporal is unreachable", extra=fields)
                is_reachable = False
            else:
                if namespace_id not in ("", found):
                    raise NamespaceReplaced(
                        f"the Temporal namespace {self._client.namespace!r} was replaced: its id was {namespace_id} and is "
                        f"{found}; the process restarts to start the workflows of all unfinished runs again"
                    )
                if not is_reachable:
                    logger.info("Temporal is reachable again")
                namespace_id, is_reachable, self._answered_at = found, True, loop.time()
            await asyncio.sleep(self._interval)

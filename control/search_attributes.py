"""The search attributes of runs' workflows and schedules, and what to do if the server does not
know them.

The Temporal server rejects a start that carries an unknown search attribute, for instance after its
database was replaced by an empty one. Executing runs does not depend on them, so they are
registered again, and without room or permission runs are started with a memo only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from temporalio.client import Client
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from control.survival import surviving
from control.temporal_calls import call_deadline
from inferrun.temporal.connection import attributes, register_search_attributes

logger = logging.getLogger(__name__)

REGISTRATION_INTERVAL: Final = 600.0
"""Seconds between two registrations; there may be room, or the permission may have been granted, in
the meantime."""

MIN_REGISTRATION_INTERVAL: Final = 10.0
"""Minimum number of seconds between two registrations after rejected requests: a server caches what
is registered."""

T = TypeVar("T")


class SearchAttributes:
    """The search attributes of one installation. Run it as one task, or only let rejected requests
    register them."""

    def __init__(self, client: Client, *, installation: str) -> None:
        self._client = client
        self._installation = installation
        # most servers know them from an earlier start; a rejected request corrects this
        self._is_registered = True
        self._registered_at = -MIN_REGISTRATION_INTERVAL
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Register the search attributes now and periodically until cancelled."""
        while True:
            with surviving("the registration of search attributes"):
                async with self._lock:
                    await self._register()
            await asyncio.sleep(REGISTRATION_INTERVAL)

    async def send(
        self, send: Callable[[TypedSearchAttributes], Awaitable[T]], *, run: str, config: str
    ) -> T:
        """Send a request with the search attributes of a run (namespace/name).

        If the server rejects them, they are registered and the request is sent again, at last
        without them. Other errors propagate.
        """
        if not self._is_registered:
            return await send(TypedSearchAttributes.empty)
        values = attributes(installation=self._installation, run=run, config=config)
        try:
            return await send(values)
        except RPCError as error:
            if not is_rejection_of_attributes(error):
                raise
        async with self._lock:  # a moment ago, another rejected request may have registered them
            if asyncio.get_running_loop().time() - self._registered_at >= MIN_REGISTRATION_INTERVAL:
                await self._register()
        if self._is_registered:
            try:
                return await send(values)
            except RPCError as error:
                # the server may learn of a registration with a delay
                if not is_rejection_of_attributes(error):
                    raise
        return await send(TypedSearchAttributes.empty)

    async def _register(self) -> None:
        async with call_deadline():
            is_registered = await register_search_attributes(self._client)
        if self._is_registered and not is_registered:
            logger.warning(
                "search attributes cannot be registered: workflows and schedules are started with a memo only",
                extra={"retry_in_seconds": REGISTRATION_INTERVAL},
            )
        self._is_registered = is_registered
        self._registered_at = asyncio.get_running_loop().time()


def is_rejection_of_attributes(error: RPCError) -> bool:
    """Whether the server rejected a request because of its search attributes: they are unknown or
    of another type."""
    return (
        error.status is RPCStatusCode.INVALID_ARGUMENT
        and "search attribute" in error.message.lower()
    )

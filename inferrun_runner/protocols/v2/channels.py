"""The connections of V2 over gRPC: several channels with one connection each, which are replaced
after a while.

A Service chooses the replica for each connection, so a single one, which all calls could share,
would use a single replica.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc.aio

from inferrun_runner.network.connections import lifetime_of

MOST: Final = 16
"""Channels at a time. More calls share them; enough for the replicas of a large model."""


@dataclass(eq=False)
class _Channel:
    channel: grpc.aio.Channel
    until: float
    calls: int = 0


class Channels:
    """Opens a channel for each call that is under way, up to a number."""

    def __init__(
        self, open_channel: Callable[[], Awaitable[grpc.aio.Channel]], *, lifetime: float
    ) -> None:
        """`open_channel` resolves the server's name and returns a channel to one of its
        addresses."""
        self._open = open_channel
        self._lifetime = lifetime
        self._channels: list[_Channel] = []

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """A channel for one call. If the server is unavailable, the caller's next call gets a new
        one."""
        taken = await self._take()
        taken.calls += 1
        try:
            yield taken.channel
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                self._retire(taken)
            raise
        finally:
            taken.calls -= 1
            await self._close_if_unused(taken)

    async def close(self) -> None:
        """Close the channels."""
        channels, self._channels = self._channels, []
        for one in channels:
            await one.channel.close()

    async def _take(self) -> _Channel:
        now = asyncio.get_running_loop().time()
        for one in [one for one in self._channels if one.until < now]:
            self._retire(one)
            await self._close_if_unused(one)
        least = min(self._channels, key=lambda one: one.calls, default=None)
        if least is not None and (least.calls == 0 or len(self._channels) >= MOST):
            return least
        opened = _Channel(await self._open(), now + lifetime_of(self._lifetime))
        self._channels.append(opened)
        return opened

    def _retire(self, one: _Channel) -> None:
        if one in self._channels:
            self._channels.remove(one)

    async def _close_if_unused(self, one: _Channel) -> None:
        if one.calls == 0 and one not in self._channels:
            await one.channel.close()

"""Limits the rate at which the observer reads logs and Events."""

import asyncio


class RateLimit:
    """Limits the rate of an operation for all who share the instance."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1.0 / per_second
        self._next = 0.0

    async def wait(self) -> None:
        """Wait until the next operation may start."""
        now = asyncio.get_running_loop().time()
        self._next = max(now, self._next + self._interval)
        await asyncio.sleep(self._next - now)

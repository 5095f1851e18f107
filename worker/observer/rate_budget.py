"""A rate limit that several tasks share."""

import asyncio


class RateBudget:
    """Grants so many permits per second, evenly spaced, in the order in which they were asked for."""

    def __init__(self, *, per_second: float) -> None:
        self._interval = 1.0 / per_second
        self._next = 0.0

    async def take(self) -> None:
        """Wait for the next permit. The wait is bounded by the number of tasks that share the budget."""
        now = asyncio.get_running_loop().time()
        self._next = max(now, self._next + self._interval)
        await asyncio.sleep(self._next - now)

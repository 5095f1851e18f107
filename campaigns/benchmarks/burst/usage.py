"""What the processes and the servers have done since a moment: CPU time by process, and the
requests that the API server and Temporal have answered."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

import httpx

from campaigns.benchmarks.burst.requests import Requests, parse_calls, read_requests
from campaigns.benchmarks.processes import Process
from inferrun.kube.client import KubeClient

PUBLISHED_SECONDS: Final = 1.2
"""Temporal publishes its counters once a second: calls were there after 0.2 to 0.9 s (server 1.29.1)."""


@dataclass(frozen=True)
class Usage:
    """The CPU seconds of each process, and the numbers of requests, of a time that took `seconds`."""

    cpu: Mapping[str, float]
    requests: Requests = field(default_factory=Counter)
    """To the API server."""

    calls: Requests = field(default_factory=Counter)
    """To Temporal."""

    seconds: float = 0.0

    def __add__(self, other: Self) -> Self:
        return type(self)(
            {name: seconds + other.cpu[name] for name, seconds in self.cpu.items()},
            self.requests + other.requests,
            self.calls + other.calls,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class Meter:
    """Reads CPU times and counters; its own requests for them are in neither. The calls to Temporal
    are those until PUBLISHED_SECONDS after the rest."""

    api: KubeClient
    temporal_metrics: str
    programs: tuple[Process, ...]

    async def start(self) -> Usage:
        """What was used so far."""
        calls, requests = await self._calls(), await read_requests(self.api)
        return Usage(self._cpu(), requests, calls, time.monotonic())

    async def since(self, begun: Usage) -> Usage:
        """What was used since `begun`."""
        cpu, seconds = self._cpu(), time.monotonic() - begun.seconds
        requests, calls = await read_requests(self.api), await self._calls()
        return Usage(
            {name: used - begun.cpu[name] for name, used in cpu.items()},
            requests - begun.requests,
            calls - begun.calls,
            seconds,
        )

    async def _calls(self) -> Requests:
        await asyncio.sleep(PUBLISHED_SECONDS)
        async with httpx.AsyncClient() as client:
            return parse_calls((await client.get(self.temporal_metrics)).text)

    def _cpu(self) -> dict[str, float]:
        return {program.name: program.cpu_seconds() for program in self.programs}

"""A balancer of connections, as a Service is one: each connection goes to the next server, and
stays there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count


@dataclass
class Balancer:
    """The servers as host and port, which a test may change, and the number of connections so
    far."""

    servers: list[str]
    address: str = ""
    connections: int = 0
    turns: "count[int]" = field(default_factory=count)

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a client to the next server until one of them closes."""
        self.connections += 1
        host, _, port = self.servers[next(self.turns) % len(self.servers)].partition(":")
        try:
            above, below = await asyncio.open_connection(host, int(port))
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, below))
                group.create_task(_copy(above, writer))
        finally:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def balancer(*servers: str) -> AsyncIterator[Balancer]:
    """Start a balancer in front of servers."""
    one = Balancer(list(servers))
    listening = await asyncio.start_server(one.forward, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()[:2]
    one.address = f"{host}:{port}"
    async with listening:
        yield one

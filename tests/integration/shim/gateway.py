"""A TCP relay on loopback in front of a Temporal server: it can stall, and it can switch to another
server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Gateway:
    """Forwards connections to `upstream`, unless it is stalled; each byte after `delay` seconds."""

    def __init__(self, upstream: str, *, delay: float = 0.0) -> None:
        self.upstream = upstream
        self._delay = delay
        self.address = ""
        self._flows = asyncio.Event()
        self._flows.set()
        self._connections: set[asyncio.Task[None]] = set()

    def stall(self) -> None:
        """Accept connections, but forward nothing: requests hang until their time limit."""
        self._flows.clear()

    def resume(self) -> None:
        """Forward again, including what was held back."""
        self._flows.set()

    def switch(self, upstream: str) -> None:
        """Cut all connections; new ones go to another server."""
        self.upstream = upstream
        self.cut()

    def cut(self) -> None:
        """Cut all connections."""
        for task in list(self._connections):
            task.cancel()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        host, _, port = self.upstream.rpartition(":")
        try:
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._copy(reader, far_writer))
                    tasks.create_task(self._copy(far_reader, writer))
            finally:
                far_writer.close()
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def arrive() -> None:
            while (item := await under_way.get())[1]:
                await asyncio.sleep(item[0] - loop.time())
                await self._flows.wait()
                writer.write(item[1])
                await writer.drain()
            with suppress(OSError):
                writer.close()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(arrive())
            is_open = True
            while is_open:
                data = await reader.read(65536)
                under_way.put_nowait((loop.time() + self._delay, data))
                is_open = bool(data)


@asynccontextmanager
async def gateway(upstream: str, *, delay: float = 0.0) -> AsyncIterator[Gateway]:
    """A running gateway."""
    made = Gateway(upstream, delay=delay)
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made.address = f"127.0.0.1:{port}"
    try:
        yield made
    finally:
        made.resume()
        server.close()
        made.cut()

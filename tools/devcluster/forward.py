"""`python -m tools.devcluster.forward ADDRESS PORT TARGET_PORT`: forwards TCP connections to a port
on loopback.

It makes a server that listens on loopback reachable at one other address of this machine, here the
gateway of kind's network, instead of at all of them.
"""

import asyncio
import contextlib
import sys

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 65_536


async def serve(address: str, port: int, *, target_port: int) -> asyncio.Server:
    """Start listening; the caller closes the server."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            target_reader, target_writer = await asyncio.open_connection(LOOPBACK, target_port)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(reader, target_writer))
                tasks.create_task(_copy(target_reader, writer))
        writer.close()

    return await asyncio.start_server(handle, address, port)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until either side closes its connection."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def main(address: str, port: int, target_port: int) -> None:
    server = await serve(address, port, target_port=target_port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

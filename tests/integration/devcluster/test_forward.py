"""The forwarder makes a server on loopback reachable at another address of this machine."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tools.devcluster.forward import serve

pytestmark = pytest.mark.thorough

OTHER_ADDRESS = "127.0.0.2"


@pytest.fixture
async def target_port() -> AsyncIterator[int]:
    """The port of a server that returns every line in upper case."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _exchange(port: int, text: bytes) -> bytes:
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(OTHER_ADDRESS, port)
        writer.write(text)
        response = await reader.readline()
        writer.close()
        await writer.wait_closed()
    return response


async def test_requests_and_responses_are_forwarded(target_port: int) -> None:
    async with await serve(OTHER_ADDRESS, 0, target_port=target_port) as server:
        port = server.sockets[0].getsockname()[1]
        assert await _exchange(port, b"one\n") == b"ONE\n"
        assert await asyncio.gather(*(_exchange(port, b"two\n") for _ in range(5))) == [b"TWO\n"] * 5


async def test_a_connection_is_closed_if_the_server_is_down() -> None:
    async with await serve(OTHER_ADDRESS, 0, target_port=1) as server:
        assert await _exchange(server.sockets[0].getsockname()[1], b"one\n") == b""

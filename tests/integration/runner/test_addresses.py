"""The runner's refusal of addresses, at its resolver and its connector. Servers listen on loopback;
nothing leaves the machine."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import pytest

from inferrun.plugins import Limits
from inferrun.plugins.http import ExchangeFailed
from inferrun_runner.network.connections import open_connections
from inferrun_runner.network.exchanges import Refused
from inferrun_runner.network.http_client import open_client, whole_timeout
from inferrun_runner.network.plain_client import open_plain_client
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, Handler


async def with_aiohttp(limits: Limits, url: str, *, proxy: str | None = None) -> None:
    """Send one request over the client for everything."""
    async with open_client(limits, timeout=whole_timeout(10)) as client:
        await client.exchange("GET", url, None, headers={}, limit=1000, proxy=proxy)


async def with_ry(limits: Limits, url: str, *, proxy: str | None = None) -> None:
    """Send one request over the client of model servers."""
    async with open_plain_client(limits, seconds=10) as client:
        await client.exchange("GET", url, None, headers={}, limit=1000, proxy=proxy)


class Get(Protocol):
    """Sends one request."""

    async def __call__(self, limits: Limits, url: str, *, proxy: str | None = None) -> None: ...


@pytest.fixture(params=[with_aiohttp, with_ry])
def get(request: pytest.FixtureRequest) -> Get:
    """Each of the clients."""
    found: Get = request.param
    return found


@asynccontextmanager
async def counting_server() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on loopback, with what it received."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1024))
        writer.write(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], received


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "127.0.0.2",
        "0.0.0.0",  # noqa: S104
    ],
)
async def test_no_spelling_of_a_loopback_address_reaches_a_server(get: Get, host: str) -> None:
    async with counting_server() as (port, received):
        with pytest.raises(Refused):
            await get(Limits(), f"http://{host}:{port}/")
    assert received == []


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "127.1",
        "0x7f000001",
        "\uff11\uff12\uff17.0.0.1",
        "LOCALHOST",
        "localhost.",
        "%31%32%37.0.0.1",
    ],
)
async def test_no_number_reaches_a_server_on_loopback(get: Get, host: str) -> None:
    async with counting_server() as (port, received):
        with pytest.raises(ExchangeFailed):
            await get(Limits(), f"http://{host}:{port}/")
    assert received == []


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"]
)
async def test_no_socket_is_created_for_the_address_of_a_metadata_service(address: str) -> None:
    connections = await open_connections(Limits())
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with pytest.raises(OSError, match="metadata"):
        connections.open_socket((family, socket.SOCK_STREAM, 0, "", (address, 80)))


async def test_a_proxy_on_a_refused_address_is_not_used(get: Get) -> None:
    async with counting_server() as (port, received):
        with pytest.raises(Refused):
            await get(Limits(), "http://192.0.2.1/", proxy=f"http://127.0.0.1:{port}")
    assert received == []


@pytest.mark.parametrize("target", ["169.254.169.254", "127.0.0.1", "localhost", "[::1]"])
async def test_an_allowed_proxy_is_not_asked_for_a_refused_address(get: Get, target: str) -> None:
    async with counting_server() as (port, received):
        limits = Limits(allowed_addresses=f"127.0.0.1:{port}")
        with pytest.raises(Refused):
            await get(limits, f"http://{target}/latest", proxy=f"http://127.0.0.1:{port}")
    assert received == []


async def test_an_allowed_address_is_reached_and_its_redirect_is_not_followed(get: Get) -> None:
    async with counting_server() as (port, received):
        await get(Limits(allowed_addresses=f"127.0.0.1:{port}"), f"http://127.0.0.1:{port}/")
    assert len(received) == 1


async def test_a_host_name_that_the_installation_refuses_is_resolved() -> None:
    async with counting_server() as (port, received):
        limits = Limits(refused_addresses=f"localhost:{port}", allowed_addresses="")
        connections = await open_connections(limits)
        with pytest.raises(OSError, match="loopback"):
            connections.open_socket(
                (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))
            )
    assert received == []


async def test_a_run_whose_model_is_on_a_refused_address_fails_with_the_setting_in_its_message(
    file: Machine, model: CountingModel
) -> None:
    file.write_rows([[1.0]])

    await file.failure(4, "loopback", "allowedAddresses", INFERRUN_ALLOWED_ADDRESSES="")
    assert model.requests == []


async def test_a_run_whose_data_handler_is_on_a_refused_address_fails_at_once(
    krateo: Machine, model: CountingModel, handler: Handler
) -> None:
    started = asyncio.get_running_loop().time()

    await krateo.failure(
        3,
        "allowedAddresses",
        INFERRUN_ALLOWED_ADDRESSES=model.url.removeprefix("http://"),
        INFERRUN_RETRY_SECONDS="50",
    )
    assert handler.asked == []
    assert asyncio.get_running_loop().time() - started < 25


async def test_predictions_are_not_posted_to_a_refused_address(
    file: Machine, krateo: Machine, handler: Handler
) -> None:
    krateo.contract["input"] = {"file": {"claimName": "given", "path": "data/rows.jsonl"}}
    krateo.write_rows([[1.0]])
    allowed = krateo.contract["kserve"]["modelUrl"].partition("/")[0]

    ended = await krateo.failure(
        5, "allowedAddresses", INFERRUN_ALLOWED_ADDRESSES=allowed, INFERRUN_RETRY_SECONDS="30"
    )
    assert "may" not in ended.message
    assert handler.stored == []

"""What the HTTP client of model servers does beside what all clients do: where its connections lead,
how long they live, and what ends at the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from inferrun.plugins.http import ExchangeFailed
from inferrun_runner.network.connections import Connections
from inferrun_runner.network.exchanges import JOINED_BYTES, Refused
from inferrun_runner.network.plain_client import PlainClient, open_plain_client
from tests.integration.runner.test_http_client import HEADERS, LIMITS, OK, raw_server, sized

TWO = LIMITS.model_copy(update={"allowed_addresses": "127.0.0.1,127.0.0.2,127.0.0.9"})


async def post(client: PlainClient, url: str, body: bytes | list[memoryview] = b"x") -> bytes:
    """Send one request and return the body of its response."""
    return (await client.exchange("POST", url, body, headers=HEADERS, limit=1000)).body


@asynccontextmanager
async def server(host: str = "127.0.0.1") -> AsyncIterator[tuple[int, list[str], list[bytes]]]:
    """A server that answers every request of a connection after as many seconds as its path says:
    its port, the addresses at which it was connected to, and the heads of its requests."""
    addresses: list[str] = []
    heads: list[bytes] = []
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        addresses.append(writer.get_extra_info("sockname")[0])
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                heads.append(head)
                await reader.readexactly(1)
                await asyncio.sleep(float(head.split(b" ")[1][1:] or 0))
                writer.write(sized(b"", b"hello"))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    listening = await asyncio.start_server(serve, host, 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], addresses, heads
        await asyncio.gather(*filter(None, tasks))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of names."""
    known: dict[str, list[str]] = {}

    async def resolve(connections: Connections, host: str, port: int) -> list[str]:
        return [one for name in known[host] for one in await original(connections, name, port)]

    original = Connections.resolve
    monkeypatch.setattr(Connections, "resolve", resolve)
    return known


@pytest.mark.parametrize("data", [b"", OK, OK + b"Content-Length: 50\r\n\r\nstart"])
async def test_a_cancelled_request_ends_at_the_server(data: bytes) -> None:
    async with (
        open_plain_client(LIMITS, seconds=60) as client,
        asyncio.timeout(10),
        raw_server(data, b"") as (url, requests),
    ):
        sending = asyncio.create_task(post(client, url))
        await asyncio.sleep(0.3)
        assert len(requests) == 1
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        # the context of the server ends when it has seen the end of the connection


async def test_a_request_that_takes_too_long_ends_at_the_server() -> None:
    async with (
        open_plain_client(LIMITS, seconds=0.2) as client,
        asyncio.timeout(10),
        raw_server(b"", b"") as (url, _),
    ):
        with pytest.raises(ExchangeFailed, match="no response within"):
            await post(client, url)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_the_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    async with raw_server() as (proxy, asked), server() as (port, _, heads):
        monkeypatch.setenv(variable, proxy)
        async with open_plain_client(LIMITS, seconds=10) as client:
            assert await post(client, f"http://127.0.0.1:{port}/") == b"hello"
    assert (asked, len(heads)) == ([], 1)


async def test_all_addresses_of_a_name_are_used_and_the_server_sees_the_name(
    names: dict[str, list[str]],
) -> None:
    names["model.invalid"] = ["127.0.0.1", "127.0.0.2"]
    async with (
        server("0.0.0.0") as (port, addresses, heads),  # noqa: S104
        open_plain_client(TWO, seconds=10) as client,
    ):
        url = f"http://model.invalid:{port}/0.2"
        await asyncio.gather(*(post(client, url) for _ in range(8)))
    assert set(addresses) == {"127.0.0.1", "127.0.0.2"}
    assert len(heads) == 8
    assert all(f"Host: model.invalid:{port}\r\n".encode() in head for head in heads)
    assert all(head.count(b"ost: ") == 1 for head in heads)


async def test_an_address_that_refuses_connections_is_passed_over(
    names: dict[str, list[str]],
) -> None:
    names["model.invalid"] = ["127.0.0.9", "127.0.0.1"]
    async with server() as (port, _, heads), open_plain_client(TWO, seconds=10) as client:
        for _ in range(4):
            await post(client, f"http://model.invalid:{port}/")
    assert len(heads) == 4


async def test_an_address_that_is_refused_is_never_connected_to(
    names: dict[str, list[str]],
) -> None:
    async with (
        server("0.0.0.0") as (port, addresses, _),  # noqa: S104
        open_plain_client(LIMITS, seconds=10) as client,
    ):
        names["model.invalid"] = ["127.0.0.2"]
        with pytest.raises(Refused, match="loopback"):
            await post(client, f"http://model.invalid:{port}/")
    assert addresses == []


@pytest.mark.parametrize(
    "form",
    [
        "http://model.invalid\\@127.0.0.1:{}/",
        "http://127.0.0.1:{}\\@model.invalid/",
        "http://127.0.0.1:{}#@model.invalid/",
        "http://a@b@127.0.0.1:{}/",
        "http://127.0.0.1\t:{}/",
        "http://127.0.0.1%09:{}/",
    ],
)
async def test_two_readings_of_a_url_reach_no_refused_server(form: str) -> None:
    async with (
        server() as (port, addresses, _),
        open_plain_client(
            LIMITS.model_copy(update={"allowed_addresses": ""}), seconds=10
        ) as client,
    ):
        with pytest.raises(ExchangeFailed) as raised:
            await post(client, form.format(port))
    assert not raised.value.was_sent
    assert addresses == []


async def test_connections_are_replaced_and_closed_but_not_below_a_request() -> None:
    limits = LIMITS.model_copy(update={"connection_seconds": 0.2})
    async with (
        server() as (port, addresses, heads),
        open_plain_client(limits, seconds=10) as client,
    ):
        url = f"http://127.0.0.1:{port}"
        slow = asyncio.create_task(post(client, f"{url}/0.6"))
        for _ in range(12):
            await post(client, f"{url}/")
            await asyncio.sleep(0.05)
        assert await slow == b"hello"
    assert 3 <= len(addresses) <= 8
    assert len(heads) == 13


@pytest.mark.parametrize("size", [JOINED_BYTES // 2, JOINED_BYTES])
async def test_a_body_in_parts_arrives_as_one(size: int) -> None:
    parts = [memoryview(b"a" * size), memoryview(b"b" * size)]
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: %d\r\n" % (2 * size) in head.lower()
        received.extend(await reader.readexactly(2 * size))
        writer.write(sized(b"", b"hello"))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening, open_plain_client(LIMITS, seconds=10) as client:
        port = listening.sockets[0].getsockname()[1]
        assert await post(client, f"http://127.0.0.1:{port}/", parts) == b"hello"
    assert received == b"".join(parts)

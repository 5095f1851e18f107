"""The HTTP clients against servers that send whatever bytes a test gives."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import pytest

from inferrun.plugins import FaultKind, Limits
from inferrun.plugins.http import ExchangeFailed
from inferrun_runner.network.exchanges import Response, ResponseTooLarge
from inferrun_runner.network.http_client import open_client, whole_timeout
from inferrun_runner.network.plain_client import open_plain_client

OK = b"HTTP/1.1 200 OK\r\n"
LIMITS = Limits(allowed_addresses="127.0.0.1")
HEADERS = {"Accept-Encoding": "identity"}


@asynccontextmanager
async def raw_server(*responses: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that sends these bytes for each request and then closes the connection; its URL and
    the requests."""
    requests: list[bytes] = []
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            for response in responses:
                requests.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(response)
                await writer.drain()
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
        await asyncio.gather(*filter(None, tasks))


class Exchange(Protocol):
    """Sends one request over a new connection."""

    async def __call__(self, url: str, *, limit: int = 1000, seconds: float = 30.0) -> Response: ...


async def with_aiohttp(url: str, *, limit: int = 1000, seconds: float = 30.0) -> Response:
    """Send one request over the client for everything."""
    async with open_client(LIMITS, timeout=whole_timeout(seconds)) as client:
        return await client.exchange("GET", url, None, headers=HEADERS, limit=limit)


async def with_ry(url: str, *, limit: int = 1000, seconds: float = 30.0) -> Response:
    """Send one request over the client of model servers."""
    async with open_plain_client(LIMITS, seconds=seconds) as client:
        return await client.exchange("GET", url, None, headers=HEADERS, limit=limit)


@pytest.fixture(params=[with_aiohttp, with_ry])
def exchange(request: pytest.FixtureRequest) -> Exchange:
    """Each of the clients."""
    found: Exchange = request.param
    return found


def sized(head: bytes, body: bytes) -> bytes:
    return OK + head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "data",
    [
        sized(b"", b"hello"),
        sized(b"Content-Encoding: gzip\r\n", gzip.compress(b"hello", mtime=0)),
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
        + sized(b"", b"hello"),
    ],
)
async def test_a_response_is_read_and_decompressed(exchange: Exchange, data: bytes) -> None:
    async with raw_server(data) as (url, requests):
        response = await exchange(url)
    assert (response.status, response.body) == (200, b"hello")
    assert b"Accept-Encoding: identity\r\n" in requests[0]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", FaultKind.LOST),
        (b"HTTP/1.1 200", FaultKind.LOST),
        (OK + b"Content-Length: 6\r\n\r\nhello", FaultKind.LOST),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", FaultKind.LOST),
        (b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\r\n\r\n", FaultKind.UNAVAILABLE),  # HTTP/2
        (b"SSH-2.0-OpenSSH\r\n\r\n", FaultKind.UNAVAILABLE),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", FaultKind.UNAVAILABLE),
        (OK + b"Content-Length: -1\r\n\r\n", FaultKind.UNAVAILABLE),
        (OK + b"X: " + b"a" * 100_000 + b"\r\n\r\n", FaultKind.UNAVAILABLE),
        (OK + b"X: 1\r\n" * 1000 + b"\r\n", FaultKind.UNAVAILABLE),
        (sized(b"Content-Encoding: gzip\r\n", b"not compressed"), FaultKind.UNAVAILABLE),
        (sized(b"Content-Encoding: br\r\n", b"\x01\x02"), FaultKind.UNAVAILABLE),
    ],
)
async def test_a_response_that_is_truncated_or_invalid_is_a_failure_after_which_a_retry_may_help(
    exchange: Exchange, data: bytes, kind: FaultKind
) -> None:
    async with raw_server(data) as (url, _):
        with pytest.raises(ExchangeFailed) as raised:
            await exchange(url)
    assert (raised.value.kind, raised.value.was_sent) == (kind, True)
    assert url not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1001,
        sized(b"Content-Encoding: gzip\r\n", gzip.compress(b"0" * 10_000_000, mtime=0)),
    ],
)
async def test_a_body_over_the_limit_is_rejected_while_it_arrives(
    exchange: Exchange, data: bytes
) -> None:
    async with raw_server(data) as (url, _):
        with pytest.raises(ResponseTooLarge):
            await exchange(url)


@pytest.mark.parametrize("data", [b"", OK, OK + b"Content-Length: 5\r\n\r\n"])
async def test_a_server_that_does_not_respond_in_time_is_a_timeout(
    exchange: Exchange, data: bytes
) -> None:
    async with raw_server(data, b"") as (url, _):
        with pytest.raises(ExchangeFailed, match=r"no response within 0\.2 s") as raised:
            await exchange(url, seconds=0.2)
    assert (raised.value.kind, raised.value.was_sent) == (FaultKind.TIMEOUT, True)


@pytest.mark.parametrize(
    "url",
    ["ftp://a/", "a:80", "http:///x", "http://a:99999/", f"http://{'a' * 64}.b/", "http://[x/"],
)
async def test_what_is_no_url_is_never_sent(exchange: Exchange, url: str) -> None:
    with pytest.raises(ExchangeFailed, match="this is not a valid URL") as raised:
        await exchange(url)
    assert (raised.value.kind, raised.value.was_sent) == (FaultKind.FAILED, False)


async def test_user_information_becomes_basic_authentication_and_a_path_cannot_add_a_header(
    exchange: Exchange,
) -> None:
    async with raw_server(sized(b"", b"")) as (url, requests):
        await exchange(url.replace("//", "//user:p%40ss@") + "/v2/models/a b%0d%0aY: 2")
    assert b"Authorization: Basic dXNlcjpwQHNz\r\n" in requests[0]
    assert requests[0].startswith(b"GET /v2/models/a%20b%0D%0AY:%202 HTTP/1.1\r\n")


async def test_no_text_of_a_server_is_shown(exchange: Exchange) -> None:
    async with raw_server(b"HTTP/1.1 c4nary c4nary\r\n\r\n") as (url, _):
        with pytest.raises(ExchangeFailed) as raised:
            await exchange(url)
    assert "c4nary" not in str(raised.value)


@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
async def test_headers_are_found_in_any_case_and_need_not_be_text(
    exchange: Exchange, name: str
) -> None:
    data = sized(b"RETRY-after: 3\r\nX: one\r\nX: two\r\nY: gr\xc3\xbc\xff\r\n", b"")
    async with raw_server(data) as (url, _):
        headers = (await exchange(url)).headers
    assert headers[name] == headers.get(name) == "3"
    assert (headers["x"], headers["y"]) == ("one", "gr\u00fc\udcff")
    assert headers.get("z") is None
    assert {one.lower() for one in headers} == {"content-length", "retry-after", "x", "y"}


async def test_a_server_that_refuses_connections_was_certainly_sent_nothing(
    exchange: Exchange,
) -> None:
    async with raw_server() as (url, _):
        peer = url.removeprefix("http://")
    with pytest.raises(ExchangeFailed) as raised:
        await exchange(f"{url}/Parse(%22,%20source:%20hyper::Error(Parse(")
    expected = (
        f"cannot connect to {peer}: Connection refused; check that the server is running and ready"
    )
    assert str(raised.value) == expected
    assert (raised.value.kind, raised.value.was_sent) == (FaultKind.UNAVAILABLE, False)


async def test_a_name_that_cannot_be_resolved_was_certainly_sent_nothing(
    exchange: Exchange,
) -> None:
    with pytest.raises(
        ExchangeFailed, match=r"cannot resolve host name 'absent\.invalid'"
    ) as raised:
        await exchange("http://absent.invalid/v2")
    assert (raised.value.kind, raised.value.was_sent) == (FaultKind.UNAVAILABLE, False)

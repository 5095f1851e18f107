"""The HTTP client against servers that send whatever bytes a test gives."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from inferrun.plugins import FaultKind, Limits
from inferrun.plugins.http import ExchangeFailed
from runner.network.http_client import Response, ResponseTooLarge, open_client, whole_timeout

OK = b"HTTP/1.1 200 OK\r\n"


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


async def exchange(url: str, *, limit: int = 1000, seconds: float = 30.0) -> Response:
    """Send one request."""
    async with open_client(
        Limits(allowed_addresses="127.0.0.1"), timeout=whole_timeout(seconds)
    ) as client:
        return await client.exchange(
            "GET", url, None, headers={"Accept-Encoding": "identity"}, limit=limit
        )


def sized(head: bytes, body: bytes) -> bytes:
    return OK + head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "data",
    [sized(b"", b"hello"), sized(b"Content-Encoding: gzip\r\n", gzip.compress(b"hello", mtime=0))],
)
async def test_a_response_is_read_and_decompressed(data: bytes) -> None:
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
    data: bytes, kind: FaultKind
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
async def test_a_body_over_the_limit_is_rejected_while_it_arrives(data: bytes) -> None:
    async with raw_server(data) as (url, _):
        with pytest.raises(ResponseTooLarge):
            await exchange(url)


async def test_a_server_that_does_not_respond_in_time_is_a_timeout() -> None:
    async with raw_server(OK + b"Content-Length: 5\r\n\r\n", b"") as (url, _):
        with pytest.raises(ExchangeFailed, match=r"no response within 0\.2 s") as raised:
            await exchange(url, seconds=0.2)
    assert raised.value.kind is FaultKind.TIMEOUT


@pytest.mark.parametrize(
    "url",
    ["ftp://a/", "a:80", "http:///x", "http://a:99999/", f"http://{'a' * 64}.b/", "http://[x/"],
)
async def test_what_is_no_url_is_never_sent(url: str) -> None:
    with pytest.raises(ExchangeFailed, match="this is not a valid URL") as raised:
        await exchange(url)
    assert (raised.value.kind, raised.value.was_sent) == (FaultKind.FAILED, False)


async def test_user_information_becomes_basic_authentication_and_a_path_cannot_add_a_header() -> (
    None
):
    async with raw_server(sized(b"", b"")) as (url, requests):
        await exchange(url.replace("//", "//user:p%40ss@") + "/v2/models/a b%0d%0aY: 2")
    assert b"Authorization: Basic dXNlcjpwQHNz\r\n" in requests[0]
    assert requests[0].startswith(b"GET /v2/models/a%20b%0D%0AY:%202 HTTP/1.1\r\n")


async def test_no_text_of_a_server_is_shown() -> None:
    async with raw_server(b"HTTP/1.1 c4nary c4nary\r\n\r\n") as (url, _):
        with pytest.raises(ExchangeFailed) as raised:
            await exchange(url)
    assert "c4nary" not in str(raised.value)

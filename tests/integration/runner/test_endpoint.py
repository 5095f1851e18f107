"""The endpoint Secret in use: TLS with a custom authority, client certificates, a proxy, basic
authentication."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.runner.authority import server_context
from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import Handler, data_handler


@pytest.fixture
async def secured(authority: Path) -> AsyncIterator[Handler]:
    """A data handler that uses TLS and requires a client certificate."""
    async with data_handler(tls=server_context(authority, asks_client=True)) as handler:
        handler.rows = [[1.0, 2.0]]
        yield handler


def base64_of(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def keys(handler: Handler, authority: Path) -> dict[str, str]:
    """Return the Secret as Krateo writes it, with base64 inside the values."""
    return {
        "server-url": handler.url,
        "certificate-authority-data": base64_of(authority / "authority.pem"),
        "client-certificate-data": base64_of(authority / "client.pem"),
        "client-key-data": base64_of(authority / "client.key"),
    }


async def test_a_custom_authority_and_a_client_certificate_are_used(
    krateo: Machine, secured: Handler, authority: Path
) -> None:
    for side in ("input", "output"):
        krateo.endpoint(side, keys(secured, authority))
    await krateo.success()
    assert secured.predictions() == [3.0]


async def test_plain_pem_is_accepted(krateo: Machine, secured: Handler, authority: Path) -> None:
    plain = {
        "server-url": secured.url,
        "certificate-authority-data": (authority / "authority.pem").read_text(),
        "client-certificate-data": (authority / "client.pem").read_text(),
        "client-key-data": (authority / "client.key").read_text(),
    }
    for side in ("input", "output"):
        krateo.endpoint(side, plain)
    await krateo.success()


async def test_an_unknown_authority_is_reported_as_a_tls_failure(
    krateo: Machine, secured: Handler, authority: Path
) -> None:
    krateo.endpoint("input", {**keys(secured, authority), "certificate-authority-data": ""})
    await krateo.failure(3, "TLS connection to 127.0.0.1:", "CERTIFICATE_VERIFY_FAILED")


async def test_insecure_needs_no_authority(
    krateo: Machine, secured: Handler, authority: Path
) -> None:
    for side in ("input", "output"):
        krateo.endpoint(
            side, {**keys(secured, authority), "certificate-authority-data": "", "insecure": "true"}
        )
    await krateo.success()


async def test_a_key_that_does_not_match_the_certificate_is_reported(
    krateo: Machine, secured: Handler, authority: Path
) -> None:
    krateo.endpoint(
        "input",
        {**keys(secured, authority), "client-key-data": base64_of(authority / "server.key")},
    )
    await krateo.failure(
        3, "the certificates in Secret 'handler-endpoint' cannot be used: KEY_VALUES_MISMATCH"
    )


async def test_user_and_password_are_sent_unless_the_config_sets_the_header(
    krateo: Machine, handler: Handler
) -> None:
    handler.rows = [[1.0]]
    for side in ("input", "output"):
        krateo.endpoint(side, {"token": "", "username": "crate", "password": "pass"})
    krateo.contract["output"]["krateo"]["api"]["headers"] = [
        "authorization: Custom abc",
        "X-Extra: 1",
    ]
    await krateo.success()
    first, second = handler.headers
    assert first["Authorization"] == "Basic " + base64.b64encode(b"crate:pass").decode()
    assert (second["Authorization"], second["X-Extra"]) == ("Custom abc", "1")


@pytest.mark.parametrize("source", ["headers", "headersFrom"])
async def test_user_information_in_the_address_besides_a_configured_authorization_is_reported(
    krateo: Machine, handler: Handler, source: str
) -> None:
    krateo.endpoint(
        "input", {"token": "", "server-url": handler.url.replace("http://", "http://user:c4nary@")}
    )
    api = krateo.contract["input"]["krateo"]["api"]
    if source == "headers":
        api["headers"] = ["authorization: Custom c4nary"]
    else:
        api["headersFrom"] = [
            {"name": "Authorization", "secretKeyRef": {"name": "handler", "key": "key"}}
        ]
        folder = krateo.folder / "endpoints" / "input-headers"
        folder.mkdir()
        (folder / "0").write_text("Custom c4nary")
    ended = await krateo.failure(3)
    assert handler.headers == []
    assert (
        "input.krateo.api.endpointRef: Secret 'handler-endpoint' has user information in server-url"
        in ended.message
    )
    assert "keep only one of them" in ended.message
    assert "c4nary" not in ended.message


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[str]]]:
    """Start an HTTP proxy that responds to every request itself; yields its URL and the request
    lines it received."""
    lines: list[str] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append((await reader.readline()).decode().strip())
        body = b'{"result": []}'
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with server:
        yield f"http://{host}:{port}", lines


async def test_requests_go_through_the_proxy(krateo: Machine) -> None:
    async with proxy() as (address, lines):
        for side in ("input", "output"):
            krateo.endpoint(side, {"server-url": "http://handler.elsewhere", "proxy-url": address})
        ended = await krateo.pod()
    assert ended.code == 0, ended.message
    assert lines == [
        f"POST http://handler.elsewhere/compute/{side} HTTP/1.1" for side in ("input", "output")
    ]

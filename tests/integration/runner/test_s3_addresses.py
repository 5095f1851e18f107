"""The S3 store opens no endpoint on an address that runs must not reach, and follows no redirect to
another host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inferrun.plugins import InputError, Limits, OutputError, RunnerError
from inferrun.stores import S3Storage
from inferrun_runner.stores.objects.bucket import open_bucket
from inferrun_runner.stores.objects.cloud import Mount
from inferrun_runner.stores.objects.s3 import s3_cloud

pytestmark = pytest.mark.thorough

FOUND = b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret'


@asynccontextmanager
async def counting_server(response: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on loopback, with what it received."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(65536))
        writer.write(response)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], received


def spec_of(endpoint: str) -> S3Storage:
    return S3Storage(bucket="records", path="in", endpoint=endpoint)


def limits_of(*ports: int) -> Limits:
    return Limits(
        allowed_addresses=",".join(f"127.0.0.1:{port}" for port in ports), retry_seconds=0
    )


@pytest.mark.parametrize(
    ("side", "error"), [("input", InputError), ("output", OutputError)], ids=["input", "output"]
)
@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("127.0.0.1", "a loopback address"),
        ("localhost", "a loopback address"),
        ("[::ffff:127.0.0.1]", "a loopback address"),
        ("0x7f.1", "a loopback address"),
        ("169.254.169.254", "a link-local address or that of a metadata service"),
        ("[fd00:ec2::254]", "a link-local address or that of a metadata service"),
        ("10.96.0.1", "an address of the control plane"),
        ("192.0.2.1:6443", "a port of the API server"),
    ],
)
async def test_no_endpoint_on_a_refused_address_is_opened(
    tmp_path: Path, side: str, error: type[RunnerError], host: str, kind: str
) -> None:
    limits = Limits(refused_addresses="10.96.0.1")
    with pytest.raises(error) as raised:
        async with open_bucket(
            spec_of(f"http://{host}"), s3_cloud, Mount(tmp_path, f"{side}.s3", error), limits
        ):
            raise AssertionError("the bucket was opened")
    assert str(raised.value) == (
        f"{side}.s3.endpoint: server at http://{host}: the server's address is {kind}, which runs must not reach; the "
        "operator can allow it with the setting allowedAddresses"
    )


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"])
async def test_a_redirect_to_another_server_is_not_followed(tmp_path: Path, status: str) -> None:
    async with counting_server(FOUND) as (other, received):
        location = f"http://localhost:{other}/records/in"
        redirect = f"HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        async with counting_server(redirect.encode()) as (port, asked):
            spec, limits = spec_of(f"http://127.0.0.1:{port}"), limits_of(port, other)
            async with open_bucket(
                spec, s3_cloud, Mount(tmp_path, "input.s3", InputError), limits
            ) as bucket:
                with pytest.raises(InputError, match="redirects to another server"):
                    await asyncio.to_thread(bucket.read, "in")
        assert asked
    assert received == []


async def test_the_proxies_of_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counting_server(FOUND) as (proxy, received), counting_server(FOUND) as (port, asked):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
        spec, limits = spec_of(f"http://127.0.0.1:{port}"), limits_of(port)
        async with open_bucket(
            spec, s3_cloud, Mount(tmp_path, "input.s3", InputError), limits
        ) as bucket:
            assert await asyncio.to_thread(bucket.read, "in") == b"secret"
    assert received == []
    assert asked[0].startswith(b"GET /records/in HTTP/1.1\r\n")


async def test_an_endpoint_that_does_not_answer_is_reported_with_its_address(
    tmp_path: Path,
) -> None:
    async with counting_server(FOUND) as (port, _):
        pass
    spec = spec_of(f"http://127.0.0.1:{port}")
    async with open_bucket(
        spec, s3_cloud, Mount(tmp_path, "input.s3", InputError), limits_of(port)
    ) as bucket:
        with pytest.raises(
            InputError, match=f"cannot connect to http://127.0.0.1:{port}: Connection refused"
        ):
            await asyncio.to_thread(bucket.read, "in")

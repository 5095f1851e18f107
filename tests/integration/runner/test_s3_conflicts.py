"""A server answers 409 to a write if another request for the same key is in progress; the write is
then repeated."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from inferrun.plugins import Limits, OutputError
from inferrun.plugins.limits import MIB
from inferrun.stores import S3Storage
from inferrun_runner.stores.objects.bucket import Bucket, open_bucket
from inferrun_runner.stores.objects.cloud import Mount
from inferrun_runner.stores.objects.s3 import s3_cloud
from tests.integration.runner.s3_server import credentials
from tests.integration.runner.servers import serving

pytestmark = pytest.mark.thorough

KEY = "out/members/pod-1.json"
CONFLICT = "<Error><Code>ConditionalRequestConflict</Code><Message>A conflicting operation is in progress.</Message></Error>"


@dataclass
class Server:
    """Stores objects after a number of conflicts."""

    conflicts: int
    stored: dict[str, bytes] = field(default_factory=dict)
    writes: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Write or read an object."""
        key, content = request.match_info["key"], await request.read()
        if request.method == "GET":
            found = self.stored.get(key)
            return (
                web.Response(status=404)
                if found is None
                else web.Response(body=found, headers={"ETag": '"a"'})
            )
        self.writes += 1
        if self.writes <= self.conflicts:
            return web.Response(status=409, text=CONFLICT, content_type="application/xml")
        if key in self.stored and "If-None-Match" in request.headers:
            return web.Response(status=412)
        self.stored[key] = content
        return web.Response(headers={"ETag": '"a"'})


@asynccontextmanager
async def bucket_of(
    server: Server, folder: Path, *, retry_seconds: float = 15
) -> AsyncIterator[Bucket]:
    """The bucket of a server on loopback."""
    credentials(folder)
    app = web.Application(client_max_size=16 * MIB)
    app.router.add_route("*", "/records", server.handle)
    app.router.add_route("*", "/records/{key:.*}", server.handle)
    limits = Limits(allowed_addresses="127.0.0.1", retry_seconds=retry_seconds)
    place = {"bucket": "records", "path": "out", "credentialsRef": {"name": "s3-key"}}
    async with serving(app) as endpoint:
        spec = S3Storage.model_validate({**place, "endpoint": endpoint})
        async with open_bucket(
            spec, s3_cloud, Mount(folder, "output.s3", OutputError), limits
        ) as bucket:
            yield bucket


async def test_an_object_is_replaced_after_a_conflict(tmp_path: Path) -> None:
    server = Server(conflicts=2)
    async with bucket_of(server, tmp_path) as bucket:
        await asyncio.to_thread(bucket.put, KEY, b"beat 2")
    assert (server.stored, server.writes) == ({KEY: b"beat 2"}, 3)


@pytest.mark.parametrize("size", [11, 5 * MIB])
async def test_a_file_is_uploaded_after_a_conflict(tmp_path: Path, size: int) -> None:
    server = Server(conflicts=1)
    content = b"p" * size
    (tmp_path / "part").write_bytes(content)
    async with bucket_of(server, tmp_path) as bucket:
        await asyncio.to_thread(bucket.put, KEY, tmp_path / "part")
    assert (server.stored, server.writes) == ({KEY: content}, 2)


async def test_a_large_file_that_the_server_refuses_is_reported(tmp_path: Path) -> None:
    server = Server(conflicts=1_000_000)
    (tmp_path / "part").write_bytes(b"p" * 5 * MIB)
    async with bucket_of(server, tmp_path, retry_seconds=0) as bucket:
        with pytest.raises(
            OutputError,
            match=r"output.s3: s3://records/.*: the server returned 409; check output.s3",
        ):
            await asyncio.to_thread(bucket.put, KEY, tmp_path / "part")
    assert server.stored == {}


async def test_an_object_is_created_after_a_conflict(tmp_path: Path) -> None:
    """Nothing is stored yet, so nobody else has won."""
    server = Server(conflicts=1)
    async with bucket_of(server, tmp_path) as bucket:
        assert await asyncio.to_thread(bucket.create, KEY, b"ours")
    assert (server.stored, server.writes) == ({KEY: b"ours"}, 2)


async def test_an_object_that_another_request_has_created_meanwhile_is_not_replaced(
    tmp_path: Path,
) -> None:
    server = Server(conflicts=1, stored={KEY: b"theirs"})
    async with bucket_of(server, tmp_path) as bucket:
        assert not await asyncio.to_thread(bucket.create, KEY, b"ours")
    assert server.stored == {KEY: b"theirs"}

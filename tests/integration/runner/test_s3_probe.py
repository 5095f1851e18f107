"""Whether a server creates an object once is found out with several writers at the same moment, and
deletions do not hide it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from inferrun.plugins import Limits, OutputError
from inferrun.stores import S3Storage
from inferrun_runner.stores.objects.bucket import Bucket, open_bucket
from inferrun_runner.stores.objects.cloud import Mount
from inferrun_runner.stores.objects.s3 import s3_cloud
from tests.integration.runner.s3_server import S3Server, credentials
from tests.integration.runner.servers import serving


class Server:
    """A server that evaluates the condition of a write, and stores the object afterwards."""

    def __init__(
        self, *, pause: float = 0, ignores: bool = False, status_of_deletions: int = 204
    ) -> None:
        self.stored: dict[str, bytes] = {}
        self.deletions: list[str] = []
        self._pause, self._ignores, self._status = pause, ignores, status_of_deletions

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Write, read or delete an object, or answer a request to delete many."""
        key, content = request.match_info.get("key", ""), await request.read()
        match request.method:
            case "POST":
                self.deletions.append("many")
                return web.Response(status=self._status if self._status != 204 else 501)
            case "DELETE":
                self.deletions.append(key)
                if self._status == 204:
                    self.stored.pop(key, None)
                return web.Response(status=self._status)
            case "GET":
                found = self.stored.get(key)
                return (
                    web.Response(status=404)
                    if found is None
                    else web.Response(body=found, headers={"ETag": '"a"'})
                )
        if key in self.stored and not self._ignores:
            return web.Response(status=412)
        if self._pause:
            await asyncio.sleep(self._pause)
        self.stored[key] = content
        return web.Response(headers={"ETag": '"a"'})


@asynccontextmanager
async def bucket_of(server: Server, folder: Path) -> AsyncIterator[Bucket]:
    """The bucket of a server on loopback."""
    app = web.Application()
    app.router.add_route("*", "/records", server.handle)
    app.router.add_route("*", "/records/{key:.*}", server.handle)
    async with serving(app) as endpoint, bucket_at(endpoint, folder) as bucket:
        yield bucket


@asynccontextmanager
async def bucket_at(endpoint: str, folder: Path) -> AsyncIterator[Bucket]:
    """The bucket of a server."""
    credentials(folder)
    limits = Limits(allowed_addresses="127.0.0.1", retry_seconds=0)
    place = {"bucket": "records", "path": "out", "credentialsRef": {"name": "s3-key"}}
    spec = S3Storage.model_validate({**place, "endpoint": endpoint})
    async with open_bucket(
        spec, s3_cloud, Mount(folder, "output.s3", OutputError), limits
    ) as bucket:
        yield bucket


async def test_a_server_that_creates_an_object_once_passes(tmp_path: Path) -> None:
    server = Server()
    async with bucket_of(server, tmp_path) as bucket:
        await asyncio.to_thread(bucket.check, "out")
    assert server.stored == {}


async def test_the_server_of_the_tests_passes_and_nothing_is_left(
    s3: S3Server, tmp_path: Path
) -> None:
    async with bucket_at(s3.url, tmp_path) as bucket:
        await asyncio.to_thread(bucket.check, "out")
        assert await asyncio.to_thread(bucket.list_below, "out/") == []


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # connections that end with a failed deletion
@pytest.mark.parametrize("status", [204, 403, 405, 501])
@pytest.mark.parametrize(
    ("ignores", "text"),
    [(True, "does not support conditional writes"), (False, "lets two writers create one object")],
)
async def test_a_server_that_lets_two_writers_win_is_rejected_whatever_it_says_to_deletions(
    tmp_path: Path, *, ignores: bool, text: str, status: int
) -> None:
    server = Server(pause=0 if ignores else 0.05, ignores=ignores, status_of_deletions=status)
    async with bucket_of(server, tmp_path) as bucket:
        with pytest.raises(
            OutputError, match=rf"output\.s3: .*{text}.*cannot be committed exactly once"
        ) as rejected:
            await asyncio.to_thread(bucket.check, "out")
    assert not rejected.value.is_retryable
    assert (status == 204) == (server.stored == {})


async def test_objects_are_deleted_one_by_one_where_many_cannot_be(tmp_path: Path) -> None:
    server, keys = Server(), [f"out/{number}" for number in range(3)]
    async with bucket_of(server, tmp_path) as bucket:
        for _ in range(2):
            for key in keys:
                await asyncio.to_thread(bucket.create, key, b"x")
            await asyncio.to_thread(bucket.delete, keys)
            assert server.stored == {}
    assert sorted(server.deletions)[-6:] == sorted(2 * keys)
    assert server.deletions.index("many") == 0
    assert (
        "many"
        not in server.deletions[
            server.deletions.index(next(one for one in server.deletions if one in keys)) :
        ]
    )

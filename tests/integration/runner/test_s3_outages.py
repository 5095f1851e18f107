"""An S3 server that is away for a while, and one that does not accept the credentials any more."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from inferrun.plugins import ContractError, OutputError
from inferrun.plugins.storage import read_spec
from inferrun.stores import S3Storage
from tests.integration.runner.test_s3_conflicts import KEY, Server, bucket_of

CANARY = "c4nary"


@dataclass
class Away(Server):
    """Answers with an error for some time."""

    until: float = 0.0
    status: int = 503
    code: str = "SlowDown"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Write or read an object, or fail."""
        if time.monotonic() < self.until:
            text = f"<Error><Code>{self.code}</Code><Message>{CANARY}</Message></Error>"
            return web.Response(status=self.status, text=text, content_type="application/xml")
        return await super().handle(request)


@pytest.mark.thorough
async def test_an_outage_is_waited_out_for_the_whole_budget(tmp_path: Path) -> None:
    """However many retries that takes."""
    server = Away(conflicts=0, until=time.monotonic() + 12)
    async with bucket_of(server, tmp_path, retry_seconds=40) as bucket:
        await asyncio.gather(
            *(asyncio.to_thread(bucket.put, f"{KEY}-{at}", b"one") for at in range(8)),
        )
    assert len(server.stored) == 8


@pytest.mark.thorough
async def test_credentials_that_have_expired_are_named(tmp_path: Path) -> None:
    server = Away(conflicts=0, until=time.monotonic() + 60, status=400, code="ExpiredToken")
    async with bucket_of(server, tmp_path) as bucket:
        with pytest.raises(
            OutputError, match="returned ExpiredToken; renew the credentials in the Secret of"
        ) as raised:
            await asyncio.to_thread(bucket.put, KEY, b"one")
    assert CANARY not in str(raised.value)


@dataclass
class Truncating(Server):
    """Cuts off its first responses to GET in the middle of the body."""

    cuts: int = 3

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Write an object, or return a range of one."""
        if request.method != "GET":
            return await super().handle(request)
        content, wanted = self.stored[request.match_info["key"]], request.http_range
        part = content[wanted]
        start, stop = wanted.start or 0, (wanted.start or 0) + len(part)
        headers = {"ETag": '"a"', "Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"}
        response = web.StreamResponse(status=206, headers=headers)
        response.content_length = len(part)
        await response.prepare(request)
        self.cuts -= 1
        await response.write(part[: len(part) // 2] if self.cuts >= 0 else part)
        if self.cuts >= 0 and request.transport is not None:
            request.transport.abort()
        return response


async def test_a_response_that_is_cut_off_is_read_again(tmp_path: Path) -> None:
    server = Truncating(conflicts=0, stored={KEY: bytes(range(256)) * 100})
    async with bucket_of(server, tmp_path) as bucket:
        found = await asyncio.to_thread(bucket.read_range, KEY, start=256, length=512)
    assert found.content == bytes(range(256)) * 2
    assert server.cuts < 0


@pytest.mark.thorough
async def test_responses_that_are_always_cut_off_are_reported(tmp_path: Path) -> None:
    server = Truncating(conflicts=0, stored={KEY: b"whole" * 100}, cuts=100_000)
    async with bucket_of(server, tmp_path, retry_seconds=0) as bucket:
        with pytest.raises(OutputError, match="the response was truncated; check output"):
            await asyncio.to_thread(bucket.read_range, KEY, start=0, length=100)


@dataclass
class Listing(Server):
    """Lists one object."""

    async def handle(self, _: web.Request) -> web.StreamResponse:
        """Return the list."""
        item = '<Key>out//a.jsonl</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"a"</ETag><Size>3</Size>'
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated><Contents>{item}</Contents></ListBucketResult>"
        return web.Response(text=text, content_type="application/xml")


async def test_an_object_whose_key_cannot_be_read_is_reported(tmp_path: Path) -> None:
    async with bucket_of(Listing(conflicts=0), tmp_path) as bucket:
        with pytest.raises(
            OutputError, match="out/: contains an object whose key has an empty part, as in a//b"
        ) as raised:
            await asyncio.to_thread(bucket.list_below, "out/")
    assert not raised.value.is_retryable


@pytest.mark.parametrize("path", ["out//a", "out//", "out/a\nb", "out/\x7f"])
@pytest.mark.parametrize("side", ["input", "output"])
def test_a_path_that_is_no_key_is_rejected_with_its_field(side: str, path: str) -> None:
    with pytest.raises(ContractError, match=rf"^{side}\.s3\.path is "):
        read_spec({"bucket": "records", "path": path}, S3Storage, field=f"{side}.s3")

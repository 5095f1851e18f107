"""A real S3 server over a folder: versitygw (`python -m tools.devcluster test-servers`). Without
it, tests are skipped."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tools.devcluster.binaries import S3, program_dir

ACCESS_KEY, SECRET_KEY = "key-of-the-tests", "secret-of-the-tests"
BUCKET = "records"


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server whose buckets are folders."""

    url: str
    folder: Path

    @property
    def bucket(self) -> Path:
        """The folder of the bucket."""
        return self.folder / BUCKET

    # Any: a storage object and its members
    def spec(self, path: str, **more: Any) -> dict[str, Any]:
        """A storage object of the bucket."""
        return {
            "bucket": BUCKET,
            "path": path,
            "endpoint": self.url,
            "credentialsRef": {"name": "s3-credentials"},
            **more,
        }


def credentials(folder: Path) -> None:
    """Write the keys of the Secret as the kubelet does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "accessKeyId").write_text(ACCESS_KEY)
    (folder / "secretAccessKey").write_text(SECRET_KEY)


def find_program() -> str:
    """The server's program, compiled or installed."""
    compiled = program_dir(S3) / "versitygw"
    return str(compiled) if compiled.exists() else shutil.which("versitygw") or ""


@asynccontextmanager
async def s3_server(
    folder: Path, *options: str, certificate: Path | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[S3Server]:
    """Start a server on a free port of this machine; with TLS if there is a certificate, whose key
    is beside it (`.key`)."""
    program = find_program()
    if not program:
        pytest.skip("versitygw is required: python -m tools.devcluster test-servers")
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind((host, 0))
        address = f"{host}:{probe.getsockname()[1]}"
    tls = (
        ["--cert", str(certificate), "--key", str(certificate.with_suffix(".key"))]
        if certificate
        else []
    )
    url = f"{'https' if certificate else 'http'}://{address}"
    process = await asyncio.create_subprocess_exec(
        *(program, "--quiet", "--port", address, *tls, "posix", *options, str(folder)),
        env={**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _until_ready(url)
        yield S3Server(url=url, folder=folder)
    finally:
        process.kill()
        await process.wait()


async def _until_ready(url: str) -> None:
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url, ssl=False):
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)

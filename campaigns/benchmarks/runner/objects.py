"""A real S3 server over a folder: versitygw (`python -m tools.devcluster programs s3`)."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.binaries import S3, program_dir

_BUCKET, _KEY, _SECRET = "records", "key-of-the-benchmark", "secret-of-the-benchmark"
_SECONDS = 30.0


@dataclass(frozen=True)
class Bucket:
    """A bucket, which is a folder."""

    folder: Path
    storage: dict[str, object]
    """The members of a storage object, without the path."""


def program() -> str:
    """The server's program, compiled or installed; empty if there is none."""
    compiled = program_dir(S3) / "versitygw"
    return str(compiled) if compiled.exists() else shutil.which("versitygw") or ""


@contextmanager
def open_bucket(folder: Path, *, endpoints: Path) -> Iterator[Bucket]:
    """Start the server, and write its keys to where the runner finds them."""
    (folder / _BUCKET).mkdir(parents=True)
    for side in ("input", "output"):
        (endpoints / side).mkdir()
        (endpoints / side / "accessKeyId").write_text(_KEY)
        (endpoints / side / "secretAccessKey").write_text(_SECRET)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program(), "--quiet", "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    environment = {**os.environ, "ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            _wait_for(port)
            server = {"endpoint": f"http://127.0.0.1:{port}", "credentialsRef": {"name": "bench"}}
            yield Bucket(folder / _BUCKET, {"bucket": _BUCKET, **server})
        finally:
            child.kill()


def _wait_for(port: int) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise TimeoutError("the S3 server does not answer")

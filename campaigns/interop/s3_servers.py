"""S3 servers of others, each pinned and started on loopback with one bucket, and what two writers
at the same moment make of them.

Programs of Go and jars are kept in the caches of the development cluster and of Maven. `garage` is
compiled by cargo for half an hour, and is used if it is on PATH.
"""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import obstore
from obstore.store import S3Store

from inferrun_runner.stores.objects.bucket import Bucket
from tests.foreign.recording import free_port
from tests.integration.runner.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY
from tools.devcluster import binaries
from tools.devcluster.commands import run
from tools.devcluster.layout import LAYOUT
from tools.devcluster.venv import uv_program

_READY_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Program:
    """How a server is started: `command` gets its folder and its port."""

    version: str
    command: Callable[[Path, int], list[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: str = "go"
    """What must be on PATH."""

    keys: tuple[str, str] = (ACCESS_KEY, SECRET_KEY)

    @property
    def is_available(self) -> bool:
        """Whether this machine has what builds or runs it."""
        return shutil.which(self.needs) is not None


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A server that runs, and its bucket."""

    url: str
    store: S3Store
    keys: tuple[str, str]

    def spec(self, path: str) -> dict[str, Any]:  # Any: a storage object and its members
        """A storage object of the bucket."""
        return {
            "bucket": BUCKET,
            "path": path,
            "endpoint": self.url,
            "credentialsRef": {"name": "s3-credentials"},
        }

    def mount(self, folder: Path) -> None:
        """Write the keys of the Secret as the kubelet does."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, key in zip(("accessKeyId", "secretAccessKey"), self.keys, strict=True):
            (folder / name).write_text(key)


def _go(module: binaries.GoModule, *arguments: str) -> list[str]:
    binaries.build_missing(modules=(module,))
    return [str(binaries.program_dir(module) / module.targets[0][0]), *arguments]


def _jar(group: str, name: str, version: str, kind: str) -> str:
    artifact = f"{group}:{name}:{version}:jar:{kind}"
    run(
        [
            "mvn",
            "--quiet",
            "--batch-mode",
            "dependency:get",
            f"-Dartifact={artifact}",
            "-Dtransitive=false",
        ],
        timeout=900,
    )
    repository = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version
    return str(repository / f"{name}-{version}-{kind}.jar")


def _seaweedfs(folder: Path, port: int) -> list[str]:
    account = f'{{"name":"tests","credentials":[{{"accessKey":"{ACCESS_KEY}","secretKey":"{SECRET_KEY}"}}],"actions":["Admin"]}}'
    (folder / "s3.json").write_text(f'{{"identities":[{account}]}}')
    ports = [f"-{name}.port={free_port()}" for name in ("master", "volume", "filer")]
    ports += [f"-{name}.port.grpc={free_port()}" for name in ("master", "volume", "filer", "s3")]
    return _go(
        binaries.SEAWEEDFS,
        *(
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={folder}",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=10",
        ),
        *("-s3", f"-s3.port={port}", f"-s3.config={folder / 's3.json'}", *ports),
    )


def _minio(folder: Path, port: int) -> list[str]:
    console = f"127.0.0.1:{free_port()}"
    return _go(
        binaries.MINIO,
        "server",
        "--address",
        f"127.0.0.1:{port}",
        "--console-address",
        console,
        str(folder),
    )


def _rclone(folder: Path, port: int) -> list[str]:
    keys = f"{ACCESS_KEY},{SECRET_KEY}"
    return _go(
        binaries.RCLONE,
        "serve",
        "s3",
        "--auth-key",
        keys,
        "--addr",
        f"127.0.0.1:{port}",
        str(folder),
    )


def _versitygw(folder: Path, port: int) -> list[str]:
    return _go(binaries.S3, "--quiet", "--port", f"127.0.0.1:{port}", "posix", str(folder))


def _s3proxy(folder: Path, port: int) -> list[str]:
    (folder / "data").mkdir()
    lines = {
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": ACCESS_KEY,
        "s3proxy.credential": SECRET_KEY,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "unused",
        "jclouds.credential": "unused",
        "jclouds.filesystem.basedir": folder / "data",
    }
    (folder / "s3proxy.conf").write_text(
        "".join(f"{name}={value}\n" for name, value in lines.items())
    )
    jar = _jar("org.gaul", "s3proxy", "2.6.0", "jar-with-dependencies")
    return ["java", "-Xmx256m", "-jar", jar, "--properties", str(folder / "s3proxy.conf")]


def _s3mock(_: Path, port: int) -> list[str]:
    jar = _jar("com.adobe.testing", "s3mock", "5.2.0", "exec")
    return ["java", "-Xmx384m", "-jar", jar, f"--server.port={free_port()}", f"--http.port={port}"]


def _localbucket(folder: Path, port: int) -> list[str]:
    uv = str(uv_program(LAYOUT))
    return [
        uv,
        "tool",
        "run",
        "--quiet",
        "--from",
        "localbucket==1.2.1",
        "localbucket",
        "--port",
        str(port),
        str(folder),
    ]


def _garage(folder: Path, port: int) -> list[str]:
    own = f"127.0.0.1:{free_port()}"
    (folder / "garage.toml").write_text(
        f'metadata_dir = "{folder}/meta"\ndata_dir = "{folder}/data"\ndb_engine = "sqlite"\nreplication_factor = 1\n'
        f'rpc_bind_addr = "{own}"\nrpc_public_addr = "{own}"\nrpc_secret = "{"0" * 64}"\n'
        f'[s3_api]\ns3_region = "us-east-1"\napi_bind_addr = "127.0.0.1:{port}"\n'
    )
    return [
        "garage",
        "-c",
        str(folder / "garage.toml"),
        "server",
        "--single-node",
        "--default-bucket",
    ]


_GARAGE_KEYS: Final = (f"GK{'0' * 24}", "0" * 64)

SERVERS: Final[Mapping[str, Program]] = {
    "seaweedfs": Program("4.x, 2026-11-09", _seaweedfs),
    "minio": Program(
        "2026-02-12", _minio, {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}
    ),
    "rclone": Program("1.76.0", _rclone),
    "versitygw": Program(
        "1.8.0", _versitygw, {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    ),
    "localbucket": Program("1.2.1", _localbucket, needs="python3"),
    "s3proxy": Program("2.6.0", _s3proxy, needs="mvn"),
    "s3mock": Program("5.2.0", _s3mock, needs="mvn"),
    "garage": Program(
        "2.5.0",
        _garage,
        {
            "GARAGE_DEFAULT_ACCESS_KEY": _GARAGE_KEYS[0],
            "GARAGE_DEFAULT_SECRET_KEY": _GARAGE_KEYS[1],
            "GARAGE_DEFAULT_BUCKET": BUCKET,
        },
        needs="garage",
        keys=_GARAGE_KEYS,
    ),
}


@contextmanager
def object_server(name: str, folder: Path) -> Iterator[ObjectServer]:
    """Start a server whose files are in a new folder below `folder`, and create the bucket."""
    own, port, program = folder / name, free_port(), SERVERS[name]
    own.mkdir(parents=True)
    command = program.command(own, port)
    url = f"http://127.0.0.1:{port}"
    store = S3Store(
        BUCKET,
        config={
            "endpoint": url,
            "access_key_id": program.keys[0],
            "secret_access_key": program.keys[1],
            "region": "us-east-1",
            "virtual_hosted_style_request": False,
        },
        client_options={"allow_http": True},
    )
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=own, env={**os.environ, **program.environment}, stdout=log, stderr=log
        )
        try:
            _create_bucket(store, process, name)
            yield ObjectServer(url, store, program.keys)
        finally:
            process.kill()  # SeaweedFS took up to 40 seconds to end by itself
            process.wait(30)


def _create_bucket(store: S3Store, process: "subprocess.Popen[bytes]", name: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    status = 0
    while status not in {200, 409}:  # it may have one already
        assert process.poll() is None, f"{name} has ended"
        assert time.monotonic() < deadline, f"{name} is not ready: {status}"
        with suppress(httpx.HTTPError):
            status = httpx.put(
                obstore.sign(store, "PUT", "", timedelta(hours=1)), timeout=30
            ).status_code
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Races:
    """What two writers made of a number of keys."""

    keys: int
    both_won: int
    none_won: int

    @property
    def verdict(self) -> str:
        """The word in the table."""
        if not self.both_won:
            return "atomic"
        return "ignored" if self.both_won == self.keys else "not atomic"


def race(writers: tuple[Bucket, Bucket], folder: str, *, keys: int) -> Races:
    """Let two clients create each key at the same moment."""
    both = none = 0
    with ThreadPoolExecutor(2) as pool:
        for number in range(keys):
            start = threading.Barrier(2)

            def create(writer: Bucket, content: bytes, key: str, start: threading.Barrier) -> bool:
                start.wait()
                return writer.create(key, content)

            key = f"{folder}/{number:05}"
            tries = [
                pool.submit(create, one, b"writer %d" % at, key, start)
                for at, one in enumerate(writers)
            ]
            won = [one.result() for one in tries]
            both, none = both + all(won), none + (not any(won))
    return Races(keys, both, none)

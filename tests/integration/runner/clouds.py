"""Emulators of Google Cloud Storage and Azure Blob Storage (`python -m tools.devcluster
test-servers`). Without one, its tests are skipped. Google's ignores the condition If-Match of a
read, and has no uploads in parts."""

import base64
import functools
import hmac
import json
import secrets
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import AzureStore, GCSStore

from tools.devcluster.binaries import GCS, program_dir
from tools.devcluster.servers_for_tests import azurite_command

_READY_SECONDS = 60
_OPTIONS: Any = {"allow_http": True}  # Any: of obstore


@dataclass(frozen=True, slots=True)
class CloudBucket:
    """An empty bucket or container."""

    label: str
    place: Mapping[str, str]
    keys: Mapping[str, str]
    """What a Secret with its credentials contains."""

    store: GCSStore | AzureStore

    # Any: a storage object and its members
    def spec(self, path: str, **more: Any) -> dict[str, Any]:
        """A storage object."""
        return {**self.place, "path": path, "credentialsRef": {"name": "credentials"}, **more}

    def mount(self, folder: Path) -> None:
        """Write the keys of the Secret as the kubelet does."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in self.keys.items():
            (folder / name).write_text(value)

    def upload(self, folder: Path) -> None:
        """Store the files of a folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                obstore.put(self.store, str(path.relative_to(folder)), path.read_bytes())

    def download(self, folder: Path) -> Path:
        """Copy all objects to a folder."""
        for page in obstore.list(self.store):
            for found in page:
                path = folder / found["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(obstore.get(self.store, found["path"]).bytes()))
        return folder


class Clouds:
    """Starts each emulator when a bucket of it is first needed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._account_key = base64.b64encode(secrets.token_bytes(32)).decode()

    def bucket(self, label: str) -> CloudBucket:
        """A new bucket of the label `gcs` or `azure`."""
        if label not in self._urls:
            start = (
                _gcs_command
                if label == "gcs"
                else functools.partial(_azure_command, self._account_key)
            )
            self._urls[label] = self._stack.enter_context(_server(start))
        name, url = f"test-{uuid.uuid4().hex}", self._urls[label]
        return (
            _new_bucket(url, name)
            if label == "gcs"
            else _new_container(url, name, self._account_key)
        )


@contextmanager
def clouds() -> Iterator[Clouds]:
    """The emulators of one test process."""
    with ExitStack() as stack:
        yield Clouds(stack)


@dataclass(frozen=True, slots=True)
class _Command:
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def _gcs_command(port: int) -> _Command:
    program = program_dir(GCS) / "gcs"
    return _Command([str(program), f"127.0.0.1:{port}"] if program.exists() else [])


def _azure_command(key: str, port: int) -> _Command:
    command = azurite_command()
    options = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
        "--silent",
    ]
    options += ["--skipApiVersionCheck", "--disableTelemetry"]
    return _Command([*command, *options] if command else [], {"AZURITE_ACCOUNTS": f"records:{key}"})


@contextmanager
def _server(command_for: Callable[[int], _Command]) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = command_for(port)
    if not command.words:
        pytest.skip("the emulator is required: python -m tools.devcluster test-servers")
    with subprocess.Popen(
        command.words, env=command.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _wait_until_ready(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@functools.cache
def google_key() -> str:
    """The key file of a service account, which was made on the spot."""
    made = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        capture_output=True,
        text=True,
        check=True,
    )
    account = {
        "type": "service_account",
        "client_email": "batch@tests.iam.gserviceaccount.com",
        "private_key_id": "1",
    }
    return json.dumps({**account, "private_key": made.stdout})


def _new_bucket(url: str, name: str) -> CloudBucket:
    body = json.dumps({"name": name}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/storage/v1/b", body)) as created:  # noqa: S310  ours
        assert created.status == 200
    store = GCSStore(
        name, config={"base_url": url, "service_account_key": google_key()}, client_options=_OPTIONS
    )
    return CloudBucket(
        "gcs", {"bucket": name, "endpoint": url}, {"credentials.json": google_key()}, store
    )


def _new_container(url: str, name: str, key: str) -> CloudBucket:
    headers = {"x-ms-version": "2021-08-06", "x-ms-date": formatdate(usegmt=True)}
    path = f"/records/{name}"
    lines = [
        "PUT",
        *[""] * 11,
        *(f"{one}:{headers[one]}" for one in sorted(headers)),
        f"/records{path}",
        "restype:container",
    ]
    signature = hmac.digest(base64.b64decode(key), "\n".join(lines).encode(), "sha256")
    headers["Authorization"] = f"SharedKey records:{base64.b64encode(signature).decode()}"
    headers["Content-Length"] = "0"
    request = urllib.request.Request(  # noqa: S310  ours
        f"{url}{path}?restype=container", headers=headers, method="PUT"
    )
    with urllib.request.urlopen(request) as created:  # noqa: S310  ours
        assert created.status == 201
    place = {"account": "records", "container": name, "endpoint": f"{url}/records"}
    store = AzureStore(
        name,
        config={
            "account_name": "records",
            "account_key": key,
            "credential_type": "access_key",
            "endpoint": place["endpoint"],
        },
        client_options=_OPTIONS,
    )
    return CloudBucket("azure", place, {"accountKey": key}, store)

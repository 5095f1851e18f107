"""Provides tests with a Docker engine that has the checkout's images.

If an engine responds at DOCKER_HOST or, without DOCKER_HOST, at Docker's default socket, it is
used. Otherwise a temporary one is started: Debian's dockerd, unpacked into the cache instead of
installed, so that no system service is started and no socket is shared. It has its own containerd,
no bridge and no network rules; its containers use the host network. Its images are kept.
"""

import fcntl
import http.client
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import images, packages
from .cleanup import mounts_below
from .commands import run, succeeds
from .console import info, step
from .errors import DevClusterError
from .layout import LAYOUT, Layout
from .processes import ProcessRecords, start, stop, wait_ready

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
PACKAGE = "docker.io"
RECORD = "docker"
REQUEST_SECONDS = 3
START_SECONDS = 30
PRUNE_SECONDS = 60
STOP_SECONDS = 20
INSTALL_FIX = "install and start Docker, or set DOCKER_HOST"


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, *, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def serve(required: Sequence[images.Image], *, layout: Layout = LAYOUT) -> None:
    """Provide an engine with these images until standard input is closed; the last line of output
    is its address.

    The caller holds the other end of the pipe, so the engine never outlives it.
    """
    with engine(layout) as address:
        for image in required:
            load(image, address=address, layout=layout)
        info(f"DOCKER_HOST={address}")
        sys.stdin.read()


@contextmanager
def engine(layout: Layout = LAYOUT) -> Iterator[str]:
    """The address of an engine that is available for the duration of the block."""
    configured = os.environ.get("DOCKER_HOST", "")
    if is_available(configured or DEFAULT_ADDRESS):
        yield configured or DEFAULT_ADDRESS
        return
    if configured:
        raise DevClusterError(
            f"no Docker engine responds at DOCKER_HOST={configured}",
            fix="start it, or unset DOCKER_HOST",
        )
    if os.geteuid() != 0:
        raise DevClusterError(
            f"no Docker engine responds at {DEFAULT_ADDRESS}, and starting one requires root",
            fix=f"use sudo, or {INSTALL_FIX}",
        )
    packages.install_missing()
    with _exclusive(layout):
        address = _start(_search_path(layout), layout)
        try:
            yield address
        finally:
            _stop(layout)


def load(image: images.Image, *, address: str, layout: Layout = LAYOUT) -> None:
    """Build an image and copy it to the engine, unless the engine already has it."""
    identity = images.build(image, layout=layout)
    if _request(address, f"/images/{image.name}/json").get("Id") == f"sha256:{identity}":
        return
    with step(f"load image {image.name} into Docker"):
        copy = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-daemon-host", address]
        run(
            [*copy, f"containers-storage:{image.name}", f"docker-daemon:{image.name}"],
            fix=f"check that the Docker engine at {address} responds",
        )


def is_available(address: str) -> bool:
    """Whether an engine responds; one that is not on a Unix socket is assumed to."""
    return not address.startswith("unix://") or "ApiVersion" in _request(address, "/version")


def _request(
    address: str, path: str, *, method: str = "GET", seconds: float = REQUEST_SECONDS
) -> dict[str, object]:
    """The engine's response, or an empty dict if there is no valid one."""
    if not address.startswith("unix://"):
        return {}
    connection = _UnixConnection(address.removeprefix("unix://"), seconds=seconds)
    try:
        connection.request(method, path)
        response = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return response if isinstance(response, dict) else {}


@contextmanager
def _exclusive(layout: Layout) -> Iterator[None]:
    """Allow one temporary engine at a time. No deadline: the kernel releases the lock when its
    holder exits."""
    layout.docker.mkdir(parents=True, exist_ok=True)
    with (layout.docker / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            info("  waiting for another command that is using the Docker engine")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _search_path(layout: Layout) -> str:
    """A PATH that contains dockerd, which is downloaded once per machine."""
    path = os.environ["PATH"]
    if shutil.which("dockerd"):
        return path
    folder = layout.cache / "docker"
    if not (folder / "usr/sbin/dockerd").exists():
        if shutil.which("apt-get") is None:
            raise DevClusterError(
                "dockerd is not installed, and apt-get is not available to download it",
                fix=INSTALL_FIX,
            )
        with step(f"download Debian's {PACKAGE}"):
            _unpack(folder)
    return f"{folder}/usr/sbin:{folder}/usr/bin:{path}"


def _unpack(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".docker-") as scratch:
        download = ["apt-get", "download", "-q", PACKAGE]
        try:
            run(download, cwd=Path(scratch))
        except DevClusterError:
            # The package lists may be missing or out of date.
            run(["apt-get", "update", "-q"], fix=INSTALL_FIX)
            run(download, cwd=Path(scratch), fix=INSTALL_FIX)
        archive = next(Path(scratch).glob("*.deb"))
        run(["dpkg-deb", "--extract", archive, Path(scratch) / "root"], fix=INSTALL_FIX)
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "root").rename(folder)


def settings(layout: Layout) -> str:
    """All of dockerd's settings; those of a Docker that is installed on the machine do not
    apply."""
    return json.dumps(
        {
            "hosts": [f"unix://{layout.docker_run}/docker.sock"],
            "data-root": str(layout.docker / "data"),
            "exec-root": str(layout.docker_run / "exec"),
            "pidfile": str(layout.docker_run / "pid"),
            # Do not interfere with kube-proxy's network rules or the machine's forwarding settings.
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
            "ip-masq": False,
            "userland-proxy": False,
            "log-level": "warn",
        },
        indent=2,
    )


def _start(search_path: str, layout: Layout) -> str:
    _stop(layout)  # A previous command may have been killed.
    layout.docker_run.mkdir(parents=True, exist_ok=True)
    configuration, log = layout.docker / "daemon.json", layout.logs / "docker.log"
    configuration.write_text(settings(layout))
    address = f"unix://{layout.docker_run}/docker.sock"
    records = ProcessRecords(layout.process_records)
    with step("start a Docker engine"):
        words = [
            shutil.which("dockerd", path=search_path) or "dockerd",
            "--config-file",
            str(configuration),
        ]
        start(
            RECORD, words, records=records, log=log, extra_env={"PATH": search_path}, fingerprint=""
        )
        wait_ready(
            RECORD, lambda: is_available(address), records=records, log=log, seconds=START_SECONDS
        )
    _prune(address)
    return address


def _prune(address: str) -> None:
    """Remove containers of tests that were killed, and images that have been replaced by a newer
    build."""
    for kind in ("containers", "images"):
        _request(address, f"/{kind}/prune", method="POST", seconds=PRUNE_SECONDS)


def _stop(layout: Layout) -> None:
    stop(RECORD, records=ProcessRecords(layout.process_records), seconds=STOP_SECONDS)
    for mount in mounts_below((layout.docker_run, layout.docker), Path("/proc/mounts").read_text()):
        succeeds(["umount", "--lazy", mount])
    shutil.rmtree(layout.docker_run, ignore_errors=True)

"""A Docker engine for tests that want containers, with the checkout's images in it.

An engine that answers already is used: the one at DOCKER_HOST, else the one at Docker's usual socket. Otherwise one of our own
runs for as long as it is wanted: Debian's dockerd, unpacked into the cache and never installed, so that no service of the
machine begins and nothing shares a socket with it. It brings a containerd of its own, has no bridge and writes no network
rule: its containers use the machine's network. What it has loaded stays for the next time.
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
from .commands import run, succeeds
from .layout import LAYOUT, Layout
from .narration import say, step
from .problem import Problem
from .processes import Records, start, stop, wait_ready
from .remains import mounts_below

USUAL = "unix:///var/run/docker.sock"
PACKAGE = "docker.io"
RECORD = "docker"
QUESTION_SECONDS = 3
START_SECONDS = 30
TIDY_SECONDS = 60
STOP_SECONDS = 20
NAME_YOURS = "install Docker and start it, or name an engine with DOCKER_HOST"


class _OverSocket(http.client.HTTPConnection):
    """HTTP over the Unix socket of an engine."""

    def __init__(self, path: str, *, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def hold(wanted: Sequence[images.Image], *, layout: Layout = LAYOUT) -> None:
    """Have an engine with these images until standard input ends; the last line says where it is.

    Whoever wants it keeps the other end of the pipe, so that it never outlives them.
    """
    with engine(layout) as address:
        for image in wanted:
            load(image, address=address, layout=layout)
        say(f"DOCKER_HOST={address}")
        sys.stdin.read()


@contextmanager
def engine(layout: Layout = LAYOUT) -> Iterator[str]:
    """The address of an engine that answers while the block runs."""
    named = os.environ.get("DOCKER_HOST", "")
    if answers(named or USUAL):
        yield named or USUAL
        return
    if named:
        raise Problem(f"no Docker engine answers at DOCKER_HOST={named}", cure="start it, or unset DOCKER_HOST")
    if os.geteuid() != 0:
        raise Problem(
            f"no Docker engine answers at {USUAL}, and to start one needs root", cure=f"sudo, or {NAME_YOURS}"
        )
    packages.install_missing()
    with _alone(layout):
        address = _start(_programs(layout), layout)
        try:
            yield address
        finally:
            _end(layout)


def load(image: images.Image, *, address: str, layout: Layout = LAYOUT) -> None:
    """Build an image and bring it into the engine, unless the engine has exactly this."""
    identity = images.make(image, layout=layout)
    if _asked(address, f"/images/{image.name}/json").get("Id") == f"sha256:{identity}":
        return
    with step(f"bring {image.name} into the Docker engine"):
        copy = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-daemon-host", address]
        run([*copy, f"containers-storage:{image.name}", f"docker-daemon:{image.name}"], cure=f"does {address} answer?")


def answers(address: str) -> bool:
    """Of an engine elsewhere nothing is known before it is used."""
    return not address.startswith("unix://") or "ApiVersion" in _asked(address, "/version")


def _asked(address: str, path: str, *, method: str = "GET", seconds: float = QUESTION_SECONDS) -> dict[str, object]:
    """What the engine says, as far as it is an answer."""
    if not address.startswith("unix://"):
        return {}
    connection = _OverSocket(address.removeprefix("unix://"), seconds=seconds)
    try:
        connection.request(method, path)
        said = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return said if isinstance(said, dict) else {}


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One engine of ours at a time. No deadline: the kernel frees the lock when its holder ends, however it ends."""
    layout.docker.mkdir(parents=True, exist_ok=True)
    with (layout.docker / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  another command uses the Docker engine; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _programs(layout: Layout) -> str:
    """The search path on which dockerd is found; fetched once per machine."""
    path = os.environ["PATH"]
    if shutil.which("dockerd"):
        return path
    folder = layout.cache / "docker"
    if not (folder / "usr/sbin/dockerd").exists():
        if shutil.which("apt-get") is None:
            raise Problem("there is no dockerd, and no apt-get to fetch it", cure=NAME_YOURS)
        with step(f"fetch Debian's {PACKAGE}", announce=True):
            _unpack(folder)
    return f"{folder}/usr/sbin:{folder}/usr/bin:{path}"


def _unpack(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".docker-") as scratch:
        download = ["apt-get", "download", "-q", PACKAGE]
        try:
            run(download, folder=Path(scratch))
        except Problem:
            # Package lists that are missing or older than the archive.
            run(["apt-get", "update", "-q"], cure=NAME_YOURS)
            run(download, folder=Path(scratch), cure=NAME_YOURS)
        archive = next(Path(scratch).glob("*.deb"))
        run(["dpkg-deb", "--extract", archive, Path(scratch) / "root"], cure=NAME_YOURS)
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "root").rename(folder)


def settings(layout: Layout) -> str:
    """All of dockerd's settings: those of a Docker that is installed on the machine must not reach it."""
    return json.dumps(
        {
            "hosts": [f"unix://{layout.docker_run}/docker.sock"],
            "data-root": str(layout.docker / "data"),
            "exec-root": str(layout.docker_run / "exec"),
            "pidfile": str(layout.docker_run / "pid"),
            # The cluster's network rules are kube-proxy's, and the machine's forwarding is not ours to set.
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


def _start(programs: str, layout: Layout) -> str:
    _end(layout)  # One that was left by a command that was killed.
    layout.docker_run.mkdir(parents=True, exist_ok=True)
    configuration, log = layout.docker / "daemon.json", layout.logs / "docker.log"
    configuration.write_text(settings(layout))
    address, records = f"unix://{layout.docker_run}/docker.sock", Records(layout.records)
    with step("start a Docker engine"):
        words = [shutil.which("dockerd", path=programs) or "dockerd", "--config-file", str(configuration)]
        start(RECORD, words, records=records, log=log, extra_env={"PATH": programs}, made_from="")
        wait_ready(RECORD, lambda: answers(address), records=records, log=log, seconds=START_SECONDS)
    _tidy(address)
    return address


def _tidy(address: str) -> None:
    """Away with containers of tests that were killed, and with images that a newer build has replaced."""
    for kind in ("containers", "images"):
        _asked(address, f"/{kind}/prune", method="POST", seconds=TIDY_SECONDS)


def _end(layout: Layout) -> None:
    stop(RECORD, records=Records(layout.records), seconds=STOP_SECONDS)
    for mount in mounts_below((layout.docker_run, layout.docker), Path("/proc/mounts").read_text()):
        succeeds(["umount", "--lazy", mount])
    shutil.rmtree(layout.docker_run, ignore_errors=True)

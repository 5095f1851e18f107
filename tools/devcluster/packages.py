"""Installs the Debian packages that the cluster needs and that are not there; says so in one line."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from .commands import run
from .narration import say, step
from .problem import Problem

CNI_PLUGINS = Path("/usr/lib/cni")
NEEDED: tuple[tuple[str, str], ...] = (
    ("etcd", "etcd-server"),
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("buildah", "buildah"),
    ("skopeo", "skopeo"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("ip", "iproute2"),
    ("mmdebstrap", "mmdebstrap"),
    ("openssl", "openssl"),
    ("umount", "mount"),
)
FOR_TESTS: tuple[tuple[str, str], ...] = (("java", "default-jre-headless"), ("mvn", "maven"))
"""What the time-skipping Temporal server of the workflow tests runs on, and what brings it."""


def has_command(name: str) -> bool:
    return shutil.which(name) is not None


def wanted_packages(
    has: Callable[[str], bool], *, has_cni: bool, needed: tuple[tuple[str, str], ...] = NEEDED
) -> list[str]:
    """Which packages bring what is missing, each once."""
    packages = [package for command, package in needed if not has(command)]
    if not has_cni:
        packages.append("containernetworking-plugins")
    return sorted(set(packages))


def missing(needed: tuple[tuple[str, str], ...] = NEEDED) -> list[str]:
    has_cni = needed is not NEEDED or (CNI_PLUGINS / "bridge").exists()
    return wanted_packages(has_command, has_cni=has_cni, needed=needed)


def install_missing(needed: tuple[tuple[str, str], ...] = NEEDED) -> None:
    packages = missing(needed)
    if not packages:
        return
    by_hand = f"install {' '.join(packages)} with this machine's package manager"
    if shutil.which("apt-get") is None:
        raise Problem(f"missing programs, and no apt-get to install them: {' '.join(packages)}", cure=by_hand)
    say(f"  installing Debian packages: {' '.join(packages)}")
    with step("install Debian packages"):
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        # An installation that was interrupted must be finished before another may begin.
        run(["dpkg", "--configure", "-a"], extra_env=quiet, cure=by_hand)
        run(["apt-get", "update", "-q"], extra_env=quiet, cure=by_hand)
        command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
        # A package that starts its service at once would take ports; this machine's cluster starts what it needs itself.
        run(command, extra_env={**quiet, "RUNLEVEL": "1"}, seconds=1200, cure=by_hand)
    left = missing(needed)
    if left:
        raise Problem(f"after installing, still missing: {' '.join(left)}", cure=f"check PATH: {os.environ['PATH']}")

"""Installs the Debian packages that the cluster needs, if they are missing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from .commands import run
from .console import step
from .errors import DevClusterError

CNI_PLUGINS = Path("/usr/lib/cni")
REQUIRED: tuple[tuple[str, str], ...] = (
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
"""Commands and the packages that contain them."""

REQUIRED_FOR_TESTS: tuple[tuple[str, str], ...] = (
    ("java", "default-jre-headless"),
    ("mvn", "maven"),
    ("pgbouncer", "pgbouncer"),
)
"""The time-skipping Temporal server of the workflow tests runs on Java and is downloaded with
Maven; databases are tested through a pooler, too."""

INSTALL_STEP = "install Debian packages"


def has_command(name: str) -> bool:
    return shutil.which(name) is not None


def packages_to_install(
    has: Callable[[str], bool], *, has_cni: bool, required: tuple[tuple[str, str], ...] = REQUIRED
) -> list[str]:
    """The packages that contain the missing commands, without duplicates."""
    packages = [package for command, package in required if not has(command)]
    if not has_cni:
        packages.append("containernetworking-plugins")
    return sorted(set(packages))


def missing(required: tuple[tuple[str, str], ...] = REQUIRED) -> list[str]:
    has_cni = required is not REQUIRED or (CNI_PLUGINS / "bridge").exists()
    return packages_to_install(has_command, has_cni=has_cni, required=required)


def install_missing(required: tuple[tuple[str, str], ...] = REQUIRED) -> None:
    packages = missing(required)
    if not packages:
        return
    manual_fix = f"install {' '.join(packages)} with this machine's package manager"
    if shutil.which("apt-get") is None:
        raise DevClusterError(
            f"required programs are missing and apt-get is not available to install {' '.join(packages)}",
            fix=manual_fix,
        )
    with step(INSTALL_STEP) as current:
        current.update(" ".join(packages))
        noninteractive = {"DEBIAN_FRONTEND": "noninteractive"}
        # An interrupted installation must be completed before another one can start.
        run(["dpkg", "--configure", "-a"], extra_env=noninteractive, fix=manual_fix)
        run(["apt-get", "update", "-q"], extra_env=noninteractive, fix=manual_fix)
        command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
        # RUNLEVEL=1 keeps packages from starting their services, which would occupy ports.
        run(command, extra_env={**noninteractive, "RUNLEVEL": "1"}, timeout=1200, fix=manual_fix)
    if remaining := missing(required):
        raise DevClusterError(
            f"still missing after the installation: {' '.join(remaining)}",
            fix=f"check PATH: {os.environ['PATH']}",
        )

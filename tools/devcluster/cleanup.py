"""Removes what a cluster leaves on the machine: containers, mounts, cgroups and the network.

It relies only on names (a cgroup, directories and a socket), so it also works if all of the
cluster's processes were killed or its checkout was deleted. It kills only processes that are in our
cgroup or have our socket on their command line.
"""

import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

from . import network
from .commands import succeeds
from .layout import CGROUP, LAYOUT, Layout
from .processes import Identity, identity_of, is_running, send, wait_until

CGROUP_ROOT = Path("/sys/fs/cgroup")


def hierarchies(mounts: str) -> list[Path]:
    """Where cgroups are mounted: one mount point with cgroup v2, one per controller with v1."""
    points = []
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2") and Path(point).is_relative_to(CGROUP_ROOT):
            points.append(Path(point))
    return points


def our_cgroups(mounts: str) -> list[Path]:
    return [point / CGROUP for point in hierarchies(mounts)]


def create_cgroups() -> None:
    """The kubelet requires its root cgroup to exist in every hierarchy, with the controllers that
    it uses."""
    mounts = Path("/proc/mounts").read_text()
    for group in our_cgroups(mounts):
        group.mkdir(exist_ok=True)
        available = group.parent / "cgroup.controllers"
        if available.exists():
            enabled = " ".join(f"+{name}" for name in available.read_text().split())
            try:
                (group.parent / "cgroup.subtree_control").write_text(enabled)
            except OSError:
                continue


def pids_in_our_cgroups() -> set[int]:
    found: set[int] = set()
    for group in our_cgroups(Path("/proc/mounts").read_text()):
        for listing in group.rglob("cgroup.procs"):
            try:
                found.update(int(line) for line in listing.read_text().split())
            except OSError:
                continue
    found.discard(0)
    return found


def is_our_shim(words: list[str], *, socket: Path) -> bool:
    """A containerd shim has the socket of the containerd that started it on its command line."""
    return (
        bool(words) and Path(words[0]).name.startswith("containerd-shim") and str(socket) in words
    )


def our_shims(layout: Layout) -> set[int]:
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if is_our_shim(words, socket=layout.containerd_socket):
                found.add(int(folder.name))
    return found


def kill_containers(layout: Layout = LAYOUT) -> None:
    """Kill the shims first, so that they do not report the exit of their containers."""
    for _ in range(10):
        pids = sorted(our_shims(layout)) or sorted(pids_in_our_cgroups())
        identities = [identity for identity in map(identity_of, pids) if identity is not None]
        if not identities:
            return
        for identity in identities:
            send(identity, signal.SIGKILL)
        _wait_for_exit(identities)


def _wait_for_exit(identities: list[Identity]) -> None:
    wait_until(lambda: not any(is_running(identity) for identity in identities), seconds=5)


def mounts_below(folders: Iterable[Path], mounts: str) -> list[str]:
    """Mount points inside the folders, innermost and latest first; the folders themselves are not
    included."""
    roots = tuple(folders)
    points = [line.split()[1].encode().decode("unicode_escape") for line in mounts.splitlines()]
    return [
        point for point in reversed(points) if any(root in Path(point).parents for root in roots)
    ]


def unmount(layout: Layout = LAYOUT) -> None:
    for point in mounts_below(
        (layout.cluster, layout.run, layout.containerd_root), Path("/proc/mounts").read_text()
    ):
        succeeds(["umount", "--lazy", point])


def remove_cgroups() -> None:
    for group in our_cgroups(Path("/proc/mounts").read_text()):
        if not group.exists():
            continue
        for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            _rmdir(folder)
        _rmdir(group)


def _rmdir(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return


def remove_all(layout: Layout = LAYOUT) -> None:
    """Remove everything except the built programs and the images on the node."""
    kill_containers(layout)
    unmount(layout)
    remove_cgroups()
    network.remove_network()
    for folder in (layout.cluster, layout.run, layout.process_records):
        shutil.rmtree(folder, ignore_errors=True)

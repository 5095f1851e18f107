"""Takes away what a cluster leaves on the machine: containers, mounts, control groups, network.

Works from names alone (a control group, folders and a socket of ours), so it also cleans after a cluster whose every
process was killed, and after one whose checkout is gone. It ends only processes that are inside our control group or carry
our socket among their words.
"""

import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

from . import network
from .commands import succeeds
from .layout import CONTROL_GROUP, LAYOUT, Layout
from .processes import Identity, identity_of, is_running, send, wait_until

CONTROL_GROUPS = Path("/sys/fs/cgroup")


def hierarchies(mounts: str) -> list[Path]:
    """Where control groups are mounted: one place with cgroup v2, one per controller with v1."""
    points = []
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2") and Path(point).is_relative_to(CONTROL_GROUPS):
            points.append(Path(point))
    return points


def our_groups(mounts: str) -> list[Path]:
    return [point / CONTROL_GROUP for point in hierarchies(mounts)]


def make_control_groups() -> None:
    """The kubelet wants its root group to exist in every hierarchy, with the controllers that it uses."""
    mounts = Path("/proc/mounts").read_text()
    for group in our_groups(mounts):
        group.mkdir(exist_ok=True)
        available = group.parent / "cgroup.controllers"
        if available.exists():
            wanted = " ".join(f"+{name}" for name in available.read_text().split())
            try:
                (group.parent / "cgroup.subtree_control").write_text(wanted)
            except OSError:
                continue


def inside_our_groups() -> set[int]:
    found: set[int] = set()
    for group in our_groups(Path("/proc/mounts").read_text()):
        for listing in group.rglob("cgroup.procs"):
            try:
                found.update(int(line) for line in listing.read_text().split())
            except OSError:
                continue
    found.discard(0)
    return found


def is_our_shim(words: list[str], *, socket: Path) -> bool:
    """A container's keeper carries the socket of the containerd that started it."""
    return bool(words) and Path(words[0]).name.startswith("containerd-shim") and str(socket) in words


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


def end_containers(layout: Layout = LAYOUT) -> None:
    """Keepers first: they would report the end of what they keep."""
    for _ in range(10):
        pids = sorted(our_shims(layout)) or sorted(inside_our_groups())
        identities = [identity for identity in map(identity_of, pids) if identity is not None]
        if not identities:
            return
        for identity in identities:
            send(identity, signal.SIGKILL)
        _wait_for_end(identities)


def _wait_for_end(identities: list[Identity]) -> None:
    wait_until(lambda: not any(is_running(identity) for identity in identities), seconds=5)


def mounts_below(folders: Iterable[Path], mounts: str) -> list[str]:
    """Mount points inside the folders, innermost and latest first; a folder that is itself one belongs to the machine."""
    roots = tuple(folders)
    points = [line.split()[1].encode().decode("unicode_escape") for line in mounts.splitlines()]
    return [point for point in reversed(points) if any(root in Path(point).parents for root in roots)]


def unmount(layout: Layout = LAYOUT) -> None:
    for point in mounts_below((layout.cluster, layout.run, layout.containerd_root), Path("/proc/mounts").read_text()):
        succeeds(["umount", "--lazy", point])


def remove_control_groups() -> None:
    for group in our_groups(Path("/proc/mounts").read_text()):
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


def clear(layout: Layout = LAYOUT) -> None:
    """Everything but the built programs and the images on the node."""
    end_containers(layout)
    unmount(layout)
    remove_control_groups()
    network.remove_network()
    for folder in (layout.cluster, layout.run, layout.records):
        shutil.rmtree(folder, ignore_errors=True)

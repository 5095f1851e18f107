"""Which of a machine's mounts and processes belong to the cluster."""

from pathlib import Path

from tools.devcluster.cleanup import hierarchies, is_our_shim, mounts_below

MOUNTS = """\
/dev/vda / ext4 rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
cgroup2 /run/elsewhere/cgroup cgroup2 rw 0 0
tmpfs /run/cluster tmpfs rw 0 0
overlay /run/cluster/task/a/rootfs overlay rw 0 0
tmpfs /var/lib/cluster/kubelet/pods/1/volumes/with\\040blank tmpfs rw 0 0
tmpfs /var/lib/clusters tmpfs rw 0 0
"""


def test_only_mounts_below_our_directories_are_removed_innermost_first() -> None:
    assert mounts_below((Path("/run/cluster"), Path("/var/lib/cluster")), MOUNTS) == [
        "/var/lib/cluster/kubelet/pods/1/volumes/with blank",
        "/run/cluster/task/a/rootfs",
    ]


def test_cgroups_are_looked_up_where_the_machine_mounts_its_own() -> None:
    assert hierarchies(MOUNTS) == [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/unified")]


def test_a_container_of_another_containerd_is_not_ours() -> None:
    words = [
        "/usr/bin/containerd-shim-runc-v2",
        "-namespace",
        "k8s.io",
        "-address",
        "/run/containerd/containerd.sock",
    ]
    assert not is_our_shim(words, socket=Path("/run/cluster/containerd.sock"))
    assert is_our_shim(words, socket=Path("/run/containerd/containerd.sock"))

"""Which Debian packages are installed."""

from tools.devcluster.packages import packages_to_install


def test_a_package_that_contains_two_missing_commands_is_installed_once() -> None:
    present = {"etcd", "runc", "buildah", "skopeo", "iptables", "conntrack", "ip", "mmdebstrap", "openssl", "umount"}
    assert packages_to_install(present.__contains__, has_cni=False) == ["containerd", "containernetworking-plugins"]


def test_nothing_is_installed_if_nothing_is_missing() -> None:
    assert packages_to_install(lambda _: True, has_cni=True) == []

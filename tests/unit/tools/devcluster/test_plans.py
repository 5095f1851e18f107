"""Small decisions of the tooling: what to install, which volumes to renew, how a duration reads."""

import io
import json
import tarfile
from typing import Any

import pytest

from tools.devcluster.archives import one_file_archive
from tools.devcluster.binaries import go_version
from tools.devcluster.images import codename
from tools.devcluster.narration import duration
from tools.devcluster.packages import wanted_packages
from tools.devcluster.volumes import plan


def _volume(name: str, phase: str) -> dict[str, Any]:  # Any: a manifest
    return {"metadata": {"name": name}, "status": {"phase": phase}}


def test_a_package_that_brings_two_missing_commands_is_installed_once() -> None:
    present = {"etcd", "runc", "buildah", "skopeo", "iptables", "conntrack", "ip", "mmdebstrap", "openssl", "umount"}
    assert wanted_packages(present.__contains__, has_cni=False) == ["containerd", "containernetworking-plugins"]


def test_nothing_is_installed_when_nothing_is_missing() -> None:
    assert wanted_packages(lambda _: True, has_cni=True) == []


def test_a_released_volume_is_replaced_and_a_bound_one_is_kept() -> None:
    listed = [_volume("a", "Released"), _volume("b", "Bound"), _volume("c", "Available")]
    assert plan(listed, free=3) == (["a"], 2)


def test_enough_free_volumes_are_left_as_they_are() -> None:
    assert plan([_volume("a", "Available"), _volume("b", "Available")], free=2) == ([], 0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4 s"), (12.3, "12 s"), (89.6, "90 s"), (90, "1 min 30 s"), (3600, "60 min 0 s")]
)
def test_a_duration_reads_as_people_say_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("text", "version"), [("go1.26.8\n", (1, 26)), ("go1.25rc1", (0, 0)), ("devel", (0, 0))])
def test_a_go_version_is_read_from_its_name(text: str, version: tuple[int, int]) -> None:
    assert go_version(text) == version


def test_a_release_name_is_read_with_and_without_quotes() -> None:
    assert codename('NAME="Debian"\nVERSION_CODENAME=bookworm\n') == "bookworm"
    assert codename('VERSION_CODENAME="noble"\n') == "noble"


def test_an_archive_names_its_image_and_holds_the_program() -> None:
    with tarfile.open(fileobj=io.BytesIO(one_file_archive("pause", b"program"))) as archive:
        entry = archive.extractfile("manifest.json")
        layer = archive.extractfile("layer.tar")
        assert entry is not None
        assert layer is not None
        assert json.load(entry)[0]["RepoTags"] == ["localhost/inferrun/pause:dev"]
        with tarfile.open(fileobj=layer) as files:
            assert files.getmember("pause").mode == 0o755

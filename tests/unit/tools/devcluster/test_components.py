"""Decisions about components that need no running cluster."""

from pathlib import Path

from tools.devcluster.components import filesystem_of, snapshotter_for

MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /run/cluster tmpfs rw 0 0
overlay /srv overlay rw 0 0
"""


def test_layers_are_copied_if_the_directory_is_on_an_overlay() -> None:
    assert snapshotter_for(filesystem_of(Path("/srv/state"), MOUNTS)) == "native"
    assert snapshotter_for(filesystem_of(Path("/var/lib/state"), MOUNTS)) == "overlayfs"

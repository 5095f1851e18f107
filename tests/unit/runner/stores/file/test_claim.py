"""The files of a claim: a name that exists is never given to another file."""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from inferrun.plugins import OutputError
from inferrun.stores import FileStorage
from inferrun_runner.stores.file.claim import ClaimFiles


def claim_at(folder: Path) -> ClaimFiles:
    return ClaimFiles(folder, FileStorage(claim_name="claim", path="out"))


NO_LINKS = (errno.EPERM, errno.EIO, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems in user space answer to a hard link: rclone 1.76 and 1.60, s3fs 1.90,
others."""


def no_links(code: int) -> Callable[..., None]:
    def link(*_: object, **__: object) -> None:
        raise OSError(code, "no links")

    return link


class NoRenames:
    """A C library of a file system in user space, which knows no flags of renames."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def renameat2(self, *_: object) -> int:
        """Fail."""
        return -1


@pytest.mark.parametrize("code", [None, *NO_LINKS])
def test_a_name_that_exists_is_not_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    if code is not None:
        monkeypatch.setattr(os, "link", no_links(code))
    claim = claim_at(tmp_path)
    claim.check("out/run")
    assert claim.create("out/run/a.json", b"first")
    assert not claim_at(tmp_path).create("out/run/a.json", b"second")
    assert claim.read("out/run/a.json") == b"first"
    assert [one.name for one in claim.list_below("out/run/")] == ["out/run/a.json"]


def test_a_draft_that_a_process_left_behind_does_not_change_the_file_that_was_published_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        assert claim_at(tmp_path).create("out/a.json", b"first")
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert not claim_at(tmp_path).create("out/a.json", b"second")
    assert claim_at(tmp_path).read("out/a.json") == b"first"


def test_a_file_that_is_put_replaces_an_earlier_one(tmp_path: Path) -> None:
    claim, source = claim_at(tmp_path), tmp_path / "source"
    source.write_bytes(b"second")
    claim.put("out/a.json", b"first")
    claim.put("out/a.json", source)
    assert claim.read("out/a.json") == b"second"
    assert [(one.name, one.size) for one in claim.list_below("out/")] == [("out/a.json", 6)]


def test_files_in_nested_folders_are_listed_and_those_behind_links_are_not(tmp_path: Path) -> None:
    claim = claim_at(tmp_path)
    claim.put("out/dt=1/hour=2/a.json", b"one")
    claim.put("elsewhere/b.json", b"two")
    (tmp_path / "out" / "link").symlink_to(tmp_path / "elsewhere")
    assert sorted(one.name for one in claim.list_below("out/")) == [
        "out/dt=1/hour=2/a.json",
        "out/link",
    ]


def test_what_does_not_exist_is_empty_and_need_not_be_deleted(tmp_path: Path) -> None:
    claim = claim_at(tmp_path)
    assert (claim.read("out/a"), claim.list_below("out/")) == (None, [])
    claim.delete(["out/a"])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_from_which_everything_was_deleted_is_deleted(tmp_path: Path) -> None:
    claim = claim_at(tmp_path)
    for name in ("out/a/1", "out/a/2", "out/b/1", "out/b/2"):
        claim.put(name, b"")
    claim.delete(["out/a/1", "out/a/2", "out/b/1"])
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "out",
        "out/b",
        "out/b/2",
    ]


def test_a_check_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at(tmp_path).check("out/run")
    monkeypatch.setattr(os, "link", os.replace)
    with pytest.raises(OutputError, match="supports neither hard links nor no-replace renames"):
        claim_at(tmp_path).check("out/run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", NO_LINKS)
def test_a_volume_with_neither_hard_links_nor_such_renames_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", no_links(code))
    monkeypatch.setattr(ctypes, "CDLL", NoRenames)
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EINVAL)
    with pytest.raises(
        OutputError, match="supports neither hard links nor no-replace renames"
    ) as rejected:
        claim_at(tmp_path).check("out/run")
    assert not rejected.value.is_retryable


def test_a_volume_that_fails_is_not_taken_for_one_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Never:
        monkeypatch.setattr(Path, "write_text", fail)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", fail)
    monkeypatch.setattr(ctypes, "CDLL", NoRenames)
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EIO)
    with pytest.raises(OutputError, match="Input/output error; check the volume") as failed:
        claim_at(tmp_path).check("out/run")
    assert failed.value.is_retryable


def test_exhausted_inodes_are_not_called_a_full_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Never:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    claim, found = claim_at(tmp_path), os.statvfs(tmp_path)
    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OutputError, match="No space left on device; free space"):
        claim.create("out/a", b"1")
    exhausted = os.statvfs_result((*found[:5], 1000, 0, 0, *found[8:]))
    monkeypatch.setattr(os, "statvfs", lambda _: exhausted)
    with pytest.raises(OutputError, match="has space, but no inode for another file; delete files"):
        claim.create("out/a", b"1")

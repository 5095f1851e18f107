"""Links on a claim: those that stay on it are followed, those that leave it are refused."""

import os
from pathlib import Path

import pytest

from inferrun_runner.stores.file.beneath import opened_folder


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("t0ken")
    root = tmp_path / "claim"
    (root / "2026" / "november").mkdir(parents=True)
    (root / "2026" / "november" / "a.jsonl").write_text("[1]\n")
    return root


def test_an_opened_folder_stays_the_same_when_its_name_is_replaced(claim: Path) -> None:
    with opened_folder(claim, "2026/november") as folder:
        (claim / "2026").rename(claim / "old")
        (claim / "2026").symlink_to(claim.parent / "secret")
        assert (folder / "a.jsonl").read_text() == "[1]\n"


def test_missing_folders_are_created_on_request_only(claim: Path) -> None:
    with pytest.raises(FileNotFoundError), opened_folder(claim, "new/folder"):
        pass
    with opened_folder(claim, "new/folder", create=True) as folder:
        (folder / "a").write_text("a")
    assert (claim / "new" / "folder" / "a").read_text() == "a"


def test_no_descriptor_is_left_open(claim: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with opened_folder(claim, "2026/november"):
        pass
    with pytest.raises(FileNotFoundError), opened_folder(claim, "2026/none"):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_names_of_new_folders_and_of_their_parents_are_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def record(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    with opened_folder(tmp_path, "a/b/c", create=True):
        pass
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]

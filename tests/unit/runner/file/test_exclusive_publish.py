"""Publishing a file under a name that is never replaced."""

import errno
import os
from pathlib import Path

import pytest

from runner.file.exclusive_publish import check_volume, publish


def test_a_published_file_has_its_final_name_only(tmp_path: Path) -> None:
    draft, final = tmp_path / "draft", tmp_path / "final"
    draft.write_text("first")
    assert publish(draft, final)
    assert final.read_text() == "first"
    assert not draft.exists()


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    draft, final = tmp_path / "draft", tmp_path / "final"
    final.write_text("first")
    draft.write_text("second")
    assert not publish(draft, final)
    assert final.read_text() == "first"
    assert not draft.exists()


def test_a_missing_draft_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "draft", tmp_path / "final")


def test_a_volume_with_hard_links_is_accepted_and_left_clean(tmp_path: Path) -> None:
    check_volume(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_volume_without_hard_links_needs_no_replace_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", no_links)
    check_volume(tmp_path)
    draft, final = tmp_path / "draft", tmp_path / "final"
    draft.write_text("second")
    final.write_text("first")
    assert not publish(draft, final)
    assert final.read_text() == "first"


def test_a_volume_that_replaces_existing_names_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    with pytest.raises(OSError, match="replaces existing names"):
        check_volume(tmp_path)
    assert list(tmp_path.iterdir()) == []

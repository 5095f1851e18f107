"""Publishing a file under a name that is never replaced."""

from pathlib import Path

import pytest

from runner.file.exclusive_publish import publish


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

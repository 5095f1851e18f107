"""What an image is built from: equal content is equal, whatever clone it lies in."""

import os
from pathlib import Path

from tools.devcluster import contexts


def _project(folder: Path, *, text: str = "print(1)\n", time: int = 1) -> Path:
    package = folder / "runner"
    package.mkdir(parents=True)
    (package / "main.py").write_text(text)
    (folder / "notes.txt").write_text(str(time))
    os.utime(package / "main.py", (time, time))
    return folder


def test_another_clone_of_the_same_content_is_the_same_image(tmp_path: Path) -> None:
    one, other = _project(tmp_path / "one", time=1), _project(tmp_path / "other", time=2)
    assert contexts.fingerprint(one, names=("runner",)) == contexts.fingerprint(other, names=("runner",))


def test_changed_code_is_another_image(tmp_path: Path) -> None:
    one, other = _project(tmp_path / "one"), _project(tmp_path / "other", text="print(2)\n")
    assert contexts.fingerprint(one, names=("runner",)) != contexts.fingerprint(other, names=("runner",))


def test_what_python_leaves_behind_is_not_part_of_an_image(tmp_path: Path) -> None:
    project = _project(tmp_path / "one")
    before = contexts.fingerprint(project, names=("runner",))
    (project / "runner/__pycache__").mkdir()
    (project / "runner/__pycache__/main.pyc").write_bytes(b"x")
    assert contexts.fingerprint(project, names=("runner",)) == before


def test_the_copy_holds_only_what_was_named_with_time_stamps_that_never_differ(tmp_path: Path) -> None:
    project = _project(tmp_path / "one", time=5)
    contexts.copy(project, tmp_path / "copy", names=("runner", "not-there"))
    copied = sorted(path for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert copied == [tmp_path / "copy/runner/main.py"]
    assert copied[0].stat().st_mtime == contexts.SAME_TIME

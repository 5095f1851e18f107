"""The build context of an image: equal content is equal, whichever clone it is in."""

import os
from pathlib import Path

from tools.devcluster import build_context


def _project(folder: Path, *, text: str = "print(1)\n", time: int = 1) -> Path:
    package = folder / "runner"
    package.mkdir(parents=True)
    (package / "main.py").write_text(text)
    (folder / "notes.txt").write_text(str(time))
    os.utime(package / "main.py", (time, time))
    return folder


def test_clones_with_the_same_content_have_the_same_fingerprint(tmp_path: Path) -> None:
    one, other = _project(tmp_path / "one", time=1), _project(tmp_path / "other", time=2)
    assert build_context.fingerprint(one, names=("runner",)) == build_context.fingerprint(other, names=("runner",))


def test_changed_code_changes_the_fingerprint(tmp_path: Path) -> None:
    one, other = _project(tmp_path / "one"), _project(tmp_path / "other", text="print(2)\n")
    assert build_context.fingerprint(one, names=("runner",)) != build_context.fingerprint(other, names=("runner",))


def test_bytecode_is_not_part_of_an_image(tmp_path: Path) -> None:
    project = _project(tmp_path / "one")
    before = build_context.fingerprint(project, names=("runner",))
    (project / "runner/__pycache__").mkdir()
    (project / "runner/__pycache__/main.pyc").write_bytes(b"x")
    assert build_context.fingerprint(project, names=("runner",)) == before


def test_the_copy_contains_only_the_given_names_with_fixed_timestamps(tmp_path: Path) -> None:
    project = _project(tmp_path / "one", time=5)
    build_context.copy(project, tmp_path / "copy", names=("runner", "not-there"))
    copied = sorted(path for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert copied == [tmp_path / "copy/runner/main.py"]
    assert copied[0].stat().st_mtime == build_context.FIXED_TIME

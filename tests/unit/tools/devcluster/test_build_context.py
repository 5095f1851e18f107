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


def test_the_fingerprint_is_that_of_the_code_without_times_and_bytecode(tmp_path: Path) -> None:
    one, other = _project(tmp_path / "one", time=1), _project(tmp_path / "other", time=2)
    (one / "runner/__pycache__").mkdir()
    (one / "runner/__pycache__/main.pyc").write_bytes(b"x")
    changed = _project(tmp_path / "changed", text="print(2)\n")
    found = [
        build_context.fingerprint(folder, names=("runner",)) for folder in (one, other, changed)
    ]
    assert found[0] == found[1] != found[2]


def test_the_copy_contains_only_the_given_names_with_fixed_timestamps(tmp_path: Path) -> None:
    project = _project(tmp_path / "one", time=5)
    build_context.copy(project, tmp_path / "copy", names=("runner", "not-there"))
    copied = sorted(path for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert copied == [tmp_path / "copy/runner/main.py"]
    assert copied[0].stat().st_mtime == build_context.FIXED_TIME

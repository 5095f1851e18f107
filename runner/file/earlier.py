"""Reads the output folder of an ended run on a claim. No link is followed: its target may be outside the claim."""

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from inferrun.plugins import RecordFormat, RetriedRun
from runner.file.beneath import opened_folder, read_file
from runner.run_folder.earlier import Documents, EarlierRun, earlier_run


def read_earlier(
    root: Path, path: str, run: RetriedRun, *, record_format: RecordFormat, location: str
) -> EarlierRun | None:
    """Return what the run has committed below `path` of the claim. Raises OutputError and OSError."""
    folder = str(PurePosixPath(path) / PurePosixPath(run.job_name).name)

    def read(name: str) -> bytes | None:
        return _read(root, folder, name)

    documents = Documents(
        run=read("run.json"), manifest=read("manifest.json"), commits=lambda: _commits(root, folder, read)
    )
    return earlier_run(documents, run, record_format=record_format, read=read, location=location)


def _commits(root: Path, folder: str, read: Callable[[str], bytes | None]) -> Iterator[bytes]:
    try:
        with opened_folder(root, f"{folder}/.commits") as opened:
            names = sorted(path.name for path in opened.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return
    for name in names:
        content = read(f".commits/{name}")
        if content is not None:
            yield content


def _read(root: Path, folder: str, name: str) -> bytes | None:
    """Read a file of the run's folder; None if it does not exist."""
    parent, last = str(PurePosixPath(folder) / PurePosixPath(name).parent), PurePosixPath(name).name
    try:
        with opened_folder(root, parent) as opened:
            return read_file(opened / last)
    except FileNotFoundError:
        return None

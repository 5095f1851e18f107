"""The input store `file`: one file, or every file of the format's ending in a folder, in the order of their names.

Files are read in place and never changed. Their names, sizes and times are the input's fingerprint.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from runner.errors import InputError
from runner.file.spec import FileSpec, read_spec
from runner.ranges import FileRanges, fingerprint_of
from runner.seams import Source, StorageObject, Surroundings
from runner.values import InputFile

_NAMES_SHOWN = 5


@asynccontextmanager
async def open_input(spec: StorageObject, around: Surroundings) -> AsyncIterator[Source]:
    """Label `file` under `input`."""
    wanted = read_spec(spec, side="input")
    record_format = around.format_named(wanted.format, "input.file.format")
    root = around.settings.input_dir

    def look() -> tuple[Path, Sequence[InputFile]]:
        try:
            return _find(root, wanted, suffix=record_format.suffix)
        except OSError as error:
            raise InputError(
                f"input.file.path: {wanted.path!r} of claim {wanted.claim_name!r} cannot be read: "
                f"{error.strerror}; the runner is user 65532"
            ) from error

    folder, files = look()
    yield FileRanges(
        folder,
        files,
        fingerprint=fingerprint_of(files),
        record_format=record_format,
        settings=around.settings,
        look_again=lambda: fingerprint_of(look()[1]),
    )


def _find(root: Path, wanted: FileSpec, *, suffix: str) -> tuple[Path, Sequence[InputFile]]:
    target = root / wanted.path
    if target.is_file():
        return target.parent, [_described(target)]
    if not target.is_dir():
        raise InputError(
            f"input.file.path: {wanted.path!r} is not there in claim {wanted.claim_name!r}; {_beside(root, target)}"
        )
    found = sorted(
        path
        for path in target.iterdir()
        if path.name.endswith(suffix) and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        raise InputError(
            f"input.file.path: folder {wanted.path!r} of claim {wanted.claim_name!r} holds no *{suffix} file; "
            f"{_listing(target)}"
        )
    return target, [_described(path) for path in found]


def _described(path: Path) -> InputFile:
    with path.open("rb"):  # what cannot be read is told before the first batch
        status = path.stat()
    return InputFile(name=path.name, size=status.st_size, modified_ns=status.st_mtime_ns)


def _beside(root: Path, target: Path) -> str:
    """What there is where the path stops being right."""
    folder = next((parent for parent in target.parents if parent.is_dir()), root)
    inside = "the claim" if folder == root else f"{folder.relative_to(root).as_posix()!r}"
    return f"{inside} {_listing(folder)}" if folder.is_dir() else "the claim is not mounted"


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"holds {', '.join(names[:_NAMES_SHOWN])}{more}" if names else "is empty"

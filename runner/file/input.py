"""The input store `file`: one file, or all files of a folder that have the format's extension, sorted by name.

Files are read in place and never modified. Their names, sizes and times of modification and change form the fingerprint.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from inferrun.plugins import InputError, Source, StorageObject, StoreContext
from runner.file.local_files import LocalFile, fingerprint_of
from runner.file.spec import FileSpec, read_spec
from runner.file_ranges import FileRanges

_NAMES_SHOWN = 5


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `file` under `input`."""
    wanted = read_spec(spec, side="input")
    record_format = context.format_named(wanted.format, "input.file.format")
    root = context.input_dir

    def find() -> Sequence[LocalFile]:
        try:
            return _find(root, wanted, suffix=record_format.suffix)
        except OSError as error:
            raise InputError(
                f"input.file.path: cannot read {wanted.path!r} on claim {wanted.claim_name!r}: "
                f"{error.strerror}; the runner runs as user 65532"
            ) from error

    files = find()
    yield FileRanges(
        files,
        fingerprint=fingerprint_of(files),
        record_format=record_format,
        limits=context.limits,
        current_fingerprint=lambda: fingerprint_of(find()),
    )


def _find(root: Path, wanted: FileSpec, *, suffix: str) -> Sequence[LocalFile]:
    target = root / wanted.path
    if target.is_file():
        return [_describe(target)]
    if not target.is_dir():
        raise InputError(
            f"input.file.path: {wanted.path!r} does not exist on claim {wanted.claim_name!r}; {_nearest(root, target)}"
        )
    found = sorted(
        path
        for path in target.iterdir()
        if path.name.endswith(suffix) and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        raise InputError(
            f"input.file.path: folder {wanted.path!r} on claim {wanted.claim_name!r} has no *{suffix} file; "
            f"it {_listing(target)}"
        )
    return [_describe(path) for path in found]


def _describe(path: Path) -> LocalFile:
    with path.open("rb"):  # an unreadable file is reported before the first batch
        status = path.stat()
    return LocalFile(
        folder=path.parent,
        name=path.name,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
    )


def _nearest(root: Path, target: Path) -> str:
    """List the deepest folder of the path that exists."""
    folder = next((parent for parent in target.parents if parent.is_dir()), root)
    name = "the claim" if folder == root else f"{folder.relative_to(root).as_posix()!r}"
    return f"{name} {_listing(folder)}" if folder.is_dir() else "the claim is not mounted"


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"contains {', '.join(names[:_NAMES_SHOWN])}{more}" if names else "is empty"

"""The input store `file`: one file, or all files of a folder that have the format's extension, sorted by name.

Files are read in place and never modified. Their names, sizes and times of modification and change form the fingerprint.
"""

import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path, PurePosixPath

from inferrun.plugins import InputError, Skipped, Source, StorageObject, StoreContext
from inferrun.plugins.storage import read_spec
from runner.stores.compression import decompressed
from runner.stores.file.beneath import opened_folder, split_last, status_of
from runner.stores.file.local_files import LocalFile, fingerprint_of
from runner.stores.file.spec import FileSpec
from runner.stores.file_ranges import FileRanges
from runner.stores.skipped_files import HIDDEN, NESTED_FOLDER, listed, why_skipped

_NAMES_SHOWN = 5


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `file` under `input`."""
    wanted = read_spec(spec, FileSpec, field="input.file")
    record_format = context.format_named(wanted.format, "input.file.format")
    root = context.input_dir

    def current_fingerprint() -> str:
        with _files(root, wanted, suffix=record_format.suffixes[0]) as (files, _):
            return fingerprint_of(files)

    with (
        _files(root, wanted, suffix=record_format.suffixes[0]) as (files, skipped),
        decompressed(files, context) as readable,
    ):
        yield FileRanges(
            readable,
            fingerprint=fingerprint_of(files),
            record_format=record_format,
            limits=context.limits,
            current_fingerprint=current_fingerprint,
            skipped=skipped,
        )


@contextmanager
def _files(root: Path, wanted: FileSpec, *, suffix: str) -> Iterator[tuple[Sequence[LocalFile], tuple[Skipped, ...]]]:
    """The input's files, whose folder stays open inside the context, and what is not read of it. Raises InputError."""
    with ExitStack() as opened:
        try:
            found = _open(opened, root, wanted, suffix=suffix)
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"input.file.path: {wanted.path!r} does not exist on claim {wanted.claim_name!r}; {_nearest(root, wanted)}"
            ) from None
        except OSError as error:
            raise InputError(
                f"input.file.path: cannot read {wanted.path!r} on claim {wanted.claim_name!r}: "
                f"{error.strerror}; the runner runs as user 65532"
            ) from error
        yield found


def _open(
    opened: ExitStack, root: Path, wanted: FileSpec, *, suffix: str
) -> tuple[Sequence[LocalFile], tuple[Skipped, ...]]:
    parent, name = split_last(root, wanted.path)
    folder = opened.enter_context(opened_folder(root, parent))
    if name and not stat.S_ISDIR((folder / name).lstat().st_mode):
        return [_describe(folder, name)], ()
    folder = opened.enter_context(opened_folder(root, f"{parent}/{name}"))
    reasons: dict[str, str] = {}
    for entry in os.scandir(folder):
        is_folder = entry.is_dir(follow_symlinks=False)
        why = NESTED_FOLDER if is_folder else why_skipped(entry.name, suffix=suffix)
        reasons[entry.name] = HIDDEN if entry.name.startswith(".") else why
    found = sorted(name for name, why in reasons.items() if not why)
    if not found:
        raise InputError(
            f"input.file.path: folder {wanted.path!r} on claim {wanted.claim_name!r} has no *{suffix} file; "
            f"it {_listing(folder)}"
        )
    return [_describe(folder, name) for name in found], listed({_shown(name): why for name, why in reasons.items()})


def _describe(folder: Path, name: str) -> LocalFile:
    """Raises InputError for a name that cannot be written in a manifest, and for what is not a file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        text = f"input.file.path: the name of file {_shown(name)} is not UTF-8; rename it"
        raise InputError(text, is_retryable=False) from None
    status = (folder / name).lstat()
    if not stat.S_ISREG(status.st_mode):
        kind = "a link; in a folder, only files are read" if stat.S_ISLNK(status.st_mode) else "not a file"
        raise InputError(f"input.file.path: {_shown(name)} is {kind}", is_retryable=False)
    status = status_of(folder, name)  # an unreadable file is reported before the first batch
    return LocalFile(
        folder=folder,
        name=name,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
    )


def _nearest(root: Path, wanted: FileSpec) -> str:
    for parent in PurePosixPath(wanted.path).parents:
        with suppress(OSError), opened_folder(root, str(parent)) as folder:
            name = "the claim" if str(parent) == "." else f"{parent.as_posix()!r}"
            return f"{name} {_listing(folder)}"
    return "the claim is not mounted"


def _listing(folder: Path) -> str:
    names = [_shown(name) for name in sorted(path.name for path in folder.iterdir())]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"contains {', '.join(names[:_NAMES_SHOWN])}{more}" if names else "is empty"


def _shown(name: str) -> str:
    """A file name as text; bytes that are not UTF-8 are escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")

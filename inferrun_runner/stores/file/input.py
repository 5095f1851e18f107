"""The input store `file`: one file, the files of a folder, or those that match a pattern, sorted by
name.

Files are read in place and never modified. Their names, sizes, times of modification and change,
and their content form the fingerprint. The time of change alone proves nothing: it differs after
the kubelet has set the same owner for another Pod (fsGroup), and after a backup has added a hard
link or an attribute; but it is all that differs if a tool writes into a file and sets its time of
modification back. So the content decides then.
"""

import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from inferrun.formats.dataset import Dataset, ListedFile, dataset_of, find, split_pattern
from inferrun.plugins import InputError, PlannedObject, Source, StorageObject, StoreContext
from inferrun.plugins.limits import MIB
from inferrun.plugins.storage import read_spec
from inferrun.stores import FileStorage
from inferrun_runner.stores.compression import decompressed
from inferrun_runner.stores.dataset import OpenedDataset, opened_format
from inferrun_runner.stores.file.beneath import open_file, opened_folder, split_last
from inferrun_runner.stores.file.local_files import LocalFile
from inferrun_runner.stores.file_ranges import FileRanges
from inferrun_runner.stores.run_folder.layout import is_partitioned

_NAMES_SHOWN = 5

_HASHED: Final = 4096 * MIB
"""The content of larger inputs is not hashed, which takes a second for 1 or 2 GiB: their times of
change count."""


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `file` under `input`."""
    wanted = read_spec(spec, FileStorage, field="input.file")
    record_format = opened_format(wanted, context, field="input.file")
    root = context.input_dir

    def find_again() -> Dataset:
        with _opened(root, wanted, suffixes=record_format.suffixes) as (_, found):
            return found

    with _opened(root, wanted, suffixes=record_format.suffixes) as (folder, found):
        files = [LocalFile(folder, one.name, one.size) for one in found.objects]
        with decompressed(files, context, suffixes=record_format.suffixes) as readable:
            dataset = OpenedDataset(
                found,
                {one.name: one for one in readable},
                _fingerprint_of,
                find_again,
                wanted,
                "input.file",
                partial(_sealed, folder),
                partial(_is_same, folder),
                is_partitioned=is_partitioned(context.contract),
            )
            yield FileRanges(dataset, record_format=record_format, limits=context.limits)


@contextmanager
def _opened(
    root: Path, wanted: FileStorage, *, suffixes: Sequence[str]
) -> Iterator[tuple[Path, Dataset]]:
    """The folder of the input, which stays open inside the context, and its files. Raises
    InputError."""
    with ExitStack() as opened:
        try:
            found = _find(opened, root, wanted, suffixes=suffixes)
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


def _find(
    opened: ExitStack, root: Path, wanted: FileStorage, *, suffixes: Sequence[str]
) -> tuple[Path, Dataset]:
    base, pattern = split_pattern(wanted.path)
    parent, name = split_last(root, base)
    folder = opened.enter_context(opened_folder(root, parent))
    if name and not stat.S_ISDIR((folder / name).lstat().st_mode):
        if pattern:
            raise NotADirectoryError
        return folder, dataset_of(_describe(folder, name))
    folder = opened.enter_context(opened_folder(root, f"{parent}/{name}"))
    found = find(
        _list(folder, is_deep=bool(pattern)),
        pattern=pattern,
        suffixes=suffixes,
        field="input.file.path",
        is_stated=wanted.states_format,
    )
    what = (
        f"{wanted.path!r} matches"
        if pattern
        else f"folder {wanted.path!r} on claim {wanted.claim_name!r} has"
    )
    where, contents = f"input.file.path: {what}", "" if found.objects else _listing(folder)
    found = found.checked(
        suffixes=suffixes, allow_empty=wanted.allow_empty, where=where, contents=contents
    )
    return folder, Dataset(
        tuple(_describe(folder, one.name, one.partition) for one in found.objects), found.skipped
    )


def _list(folder: Path, *, is_deep: bool) -> Iterator[ListedFile]:
    """Yield the files below a folder; a folder that cannot have files of the input ends with "/".
    No link is followed."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path, folders, names, handle in os.fwalk(".", dir_fd=top):
            prefix = f"{path}/"[2:]
            for name in names:
                status = os.lstat(name, dir_fd=handle)
                yield ListedFile(
                    prefix + name, status.st_size if stat.S_ISREG(status.st_mode) else 1
                )
            for name in list(folders):
                if name.startswith((".", "_")) or not (is_deep or "=" in name):
                    folders.remove(name)
                    yield ListedFile(f"{prefix}{name}/", 0)
    finally:
        os.close(top)


def _describe(
    folder: Path, name: str, partition: Mapping[str, str | None] | None = None
) -> PlannedObject:
    """Raises InputError for a name that cannot be written in a manifest, and for what is not a
    file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        text = f"input.file.path: the name of file {_shown(name)} is not UTF-8; rename it"
        raise InputError(text, is_retryable=False) from None
    parent, _, last = name.rpartition("/")
    with opened_folder(folder, parent) as inner:
        status = (inner / last).lstat()
        if not stat.S_ISREG(status.st_mode):
            kind = (
                "a link; in a folder, only files are read"
                if stat.S_ISLNK(status.st_mode)
                else "not a file"
            )
            raise InputError(f"input.file.path: {_shown(name)} is {kind}", is_retryable=False)
        # an unreadable file is reported before the first batch
        with open_file(inner / last) as file:
            return PlannedObject(
                name, os.fstat(file.fileno()).st_size, _times_of(file), partition or {}
            )


def _times_of(file: BinaryIO) -> str:
    status = os.fstat(file.fileno())
    return f"{status.st_mtime_ns}\t{status.st_ctime_ns}"


def _sealed(folder: Path, objects: Sequence[PlannedObject]) -> Sequence[PlannedObject]:
    """Add a hash of its content to the tag of each file."""
    is_small = sum(one.size for one in objects) <= _HASHED
    contents = [_content_of(folder, one) if is_small else "" for one in objects]
    return [
        replace(one, tag=f"{one.tag}\t{content}") if content else one
        for one, content in zip(objects, contents, strict=True)
    ]


def _is_same(folder: Path, planned: PlannedObject, found: PlannedObject) -> bool:
    """Whether a file has the size, the time of modification and the content with which the run
    began."""
    modified, changed, *content = planned.tag.split("\t")
    if replace(planned, tag=found.tag) != found or not found.tag.startswith(f"{modified}\t"):
        return False
    return found.tag == f"{modified}\t{changed}" or content == [_content_of(folder, found)]


def _content_of(folder: Path, one: PlannedObject) -> str:
    """Return a hash of what a file contains; empty if it is not, or no longer, the one that was
    described."""
    with suppress(OSError), LocalFile(folder, one.name, one.size).open() as file:
        digest = hashlib.sha256()
        while _times_of(file) == one.tag:
            if not (piece := file.read(4 * MIB)):
                return digest.hexdigest()
            digest.update(piece)
    return ""


def _fingerprint_of(objects: Sequence[PlannedObject]) -> str:
    text = "\n".join(f"{one.name}\t{one.size}\t{one.tag}" for one in objects)
    return "files-sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _nearest(root: Path, wanted: FileStorage) -> str:
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
